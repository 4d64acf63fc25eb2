"""Kinds of one contract by name: those of Headrace, those that installed packages add, and classes of user modules.

A module is imported only when it is needed.
"""

import functools
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.errors import ConfigError, error_line, require
from headrace.imports import import_user_module

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes of settings by name, all subclasses of one contract.

    `contract` and the values of `built_in`, Headrace's own, are places: "module:Class". An installed package adds a
    class with an entry point of `group`, which has the class's name. The place of any other class is its name, too.
    `required` are attributes that a class must have; `check`, the place of a function, raises ConfigError for one with
    another mistake.
    """

    def __init__(
        self,
        what: str,
        group: str,
        contract: str,
        built_in: Mapping[str, str],
        required: tuple[str, ...] = ("summary",),
        check: str = "",
    ) -> None:
        self._what, self._group, self._contract, self._required, self._check = what, group, contract, required, check
        self.built_in = built_in
        self.find = functools.cache(self._find)
        """The class of this name or place; raises ConfigError if there is none, or if it can't be loaded."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of Headrace first; imports none of them."""
        return (*self.built_in, *self._added)

    @property
    def homes(self) -> dict[str, str]:
        """The module of each of Headrace's classes, by the class's name."""
        return {kind: module for module, _, kind in (place.partition(":") for place in self.built_in.values())}

    def known(self) -> dict[str, type[T]]:
        """All classes by name, except those of packages that can't be loaded."""
        known = {}
        for name in self.names:
            try:
                known[name] = self.find(name)
            except ConfigError:  # said when this one is asked for
                continue
        return known

    def names_where(self, holds: Callable[[type[T]], bool]) -> str:
        """The names of the classes for which it holds, for a message: "a or b"."""
        return " or ".join(name for name, kind in self.known().items() if holds(kind))

    def name_of(self, settings: Any) -> str:
        """The name by which every process finds the class of these settings: as registered, or else its place."""
        kind, name = type(settings), str(settings.name)
        if (name in self.built_in or name in self._added) and self.find(name) is kind:
            return name
        return f"{kind.__module__}:{kind.__qualname__}"

    def require_importable(self, settings: Any) -> None:
        """Raises ConfigError for anything but an object of a class of this kind that other processes can import."""
        kind: Any = type(settings)
        if not isinstance(settings, self._base):
            example = self.find(next(iter(self.built_in))).__name__
            require(self._what, f"{settings!r:.60}", False, f"an object such as headrace.{example}()")
        name = self.name_of(settings)
        if kind.__module__ == "__main__" or (":" in name and self.find(name) is not kind):
            raise ConfigError(
                f"{self._what} is an object of {name}, which other processes can't import: a class of a module is "
                "required"
            )

    def read(self, record: Mapping[str, Any]) -> T:
        """Settings from JSON, whose `name` says of which class they are; raises ConfigError, naming the field."""
        from headrace.fields import read_fields

        settings = dict(record)
        name = settings.pop("name", None)
        if not isinstance(name, str) or name not in self.built_in:
            known = isinstance(name, str) and (name in self._added or ":" in name)
            require("name", f"{name!r:.60}", known, f"one of {', '.join(self.names)}")
        return read_fields(self.find(name), settings)

    def forget(self) -> None:
        """Looks for installed packages again at the next call."""
        _installed.cache_clear()
        self.__dict__.pop("_added", None)
        self.find.cache_clear()

    def _find(self, name: str) -> type[T]:
        if name in self.built_in:
            built_in: type[T] = _import(self.built_in[name])
            return built_in
        if ":" in name:
            return self._import_user_class(name)
        required = f"one of {', '.join(self.names)}, or package.module:Class"
        require(self._what, f"{name:.60}", name in self._added, required)
        return self._load(self._added[name])

    @property
    def _base(self) -> type[T]:
        base: type[T] = _import(self._contract)
        return base

    @functools.cached_property
    def _added(self) -> "dict[str, EntryPoint]":
        return {
            entry.name: entry for entry in _installed().select(group=self._group) if entry.name not in self.built_in
        }

    def _load(self, entry: "EntryPoint") -> type[T]:
        which = f'{self._what} {entry.name}: entry point "{entry.name} = {entry.value}" of {self._group}'
        try:
            kind = entry.load()
        except (Exception, SystemExit) as error:  # anything may happen while the package is imported
            raise ConfigError(f"{which} can't be loaded: {error_line(error)}") from error
        if getattr(kind, "name", None) != entry.name:
            raise ConfigError(
                f'{which} is {kind!r:.60}; a subclass of {self._base.__name__} whose name is "{entry.name}" is required'
            )
        return self._checked(which, kind)

    def _import_user_class(self, place: str) -> type[T]:
        module, _, name = place.partition(":")
        which = f"{self._what} {place}"
        try:
            kind = getattr(import_user_module(module), name)
        except (Exception, SystemExit) as error:  # anything may happen while the module is imported
            raise ConfigError(f"{which} can't be loaded: {error_line(error)}") from error
        return self._checked(which, kind)

    def _checked(self, which: str, kind: Any) -> type[T]:
        """The class, if it keeps its contract; raises ConfigError, which says which one it is, if not."""
        if not (isinstance(kind, type) and issubclass(kind, self._base)):
            raise ConfigError(f"{which} is {kind!r:.60}; a subclass of {self._base.__name__} is required")
        undeclared = [name for name, value in vars(kind).get("__annotations__", {}).items() if _is_field(value)]
        if undeclared and "__dataclass_fields__" not in vars(kind):
            raise ConfigError(
                f"{which} has the settings {', '.join(undeclared)} and is no dataclass: @dataclass(frozen=True) is "
                "required"
            )
        missing = [name for name in self._required if not getattr(kind, name, None)]
        missing += sorted(getattr(kind, "__abstractmethods__", ()))
        if missing:
            raise ConfigError(f"{which} has no {', '.join(missing)}: every {self._what} must have them")
        try:
            made = kind()
        except Exception as error:
            problem = " ".join(str(error).split())
            raise ConfigError(f"{which} can't be made with its defaults: {problem}") from error
        _require_json(which, made)
        if self._check:
            try:
                _import(self._check)(kind)
            except ConfigError as error:
                raise ConfigError(f"{which}: {error}") from error
        return kind


@functools.cache
def _installed() -> Any:
    """The entry points of all installed packages."""
    from importlib.metadata import entry_points  # slow to import, and the package itself imports this module

    return entry_points()


def _import(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _is_field(annotation: Any) -> bool:
    return "ClassVar" not in str(annotation)


def _require_json(which: str, settings: Any) -> None:
    """Raises ConfigError for settings that are others after their way to a process or a checkpoint, as JSON."""
    from headrace.fields import read_fields, write_fields

    record = write_fields(settings)
    try:
        arrived = write_fields(read_fields(type(settings), json.loads(json.dumps(record))))
    except (TypeError, ValueError, ConfigError) as error:
        raise ConfigError(f"{which} has settings that can't be sent as JSON: {error}") from error
    changed = [name for name, value in record.items() if arrived[name] != value]
    if changed:
        raise ConfigError(f"{which} has settings that JSON changes: {', '.join(changed)}")
