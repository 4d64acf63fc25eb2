"""All algorithms by name: those of this package, and those that installed packages add.

An installed package adds an algorithm with an entry point of the group `headrace.algorithms`. Its name is that of the
algorithm, its object a subclass of `Algorithm`. A module is imported only when it is needed.
"""

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, require

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from headrace.algorithms.config import Algorithm

__all__ = ["BUILT_IN", "algorithm_names", "find_algorithm", "known_algorithms", "read_algorithm", "require_registered"]

BUILT_IN = {
    "dqn": "headrace.algorithms.dqn:DQN",
    "dyna-q": "headrace.algorithms.dyna_q:DynaQ",
    "d4pg": "headrace.algorithms.d4pg:D4PG",
    "td3": "headrace.algorithms.td3:TD3",
    "sac": "headrace.algorithms.sac:SAC",
    "crossq": "headrace.algorithms.crossq:CrossQ",
    "a3c": "headrace.algorithms.a3c:A3C",
    "r2d2": "headrace.algorithms.r2d2:R2D2",
}
"""The algorithms of this package: module and class by name."""

_GROUP = "headrace.algorithms"


def algorithm_names() -> tuple[str, ...]:
    """Names of all algorithms, those of this package first; imports none of them."""
    return (*BUILT_IN, *_added())


@functools.cache
def find_algorithm(name: str) -> "type[Algorithm]":
    """The settings of an algorithm by name; raises ConfigError if there is none, or if its package can't be loaded."""
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        built_in: type[Algorithm] = getattr(import_module(module), kind)
        return built_in
    require("algorithm", f"{name:.60}", name in _added(), f"one of {', '.join(algorithm_names())}")
    return _load(_added()[name])


def known_algorithms() -> "dict[str, type[Algorithm]]":
    """All algorithms by name, except those of packages that can't be loaded."""
    known = {}
    for name in algorithm_names():
        try:
            known[name] = find_algorithm(name)
        except ConfigError:  # said when this algorithm is asked for
            continue
    return known


def require_registered(algorithm: "Algorithm") -> None:
    """Raises ConfigError for no algorithm, or one that is not registered, which other processes could not make."""
    from headrace.algorithms.config import Algorithm

    if not isinstance(algorithm, Algorithm):
        raise ConfigError(f"algorithm is {algorithm!r:.60}; an object is required, such as headrace.DQN()")
    kind, name = type(algorithm), algorithm.name
    if name not in algorithm_names() or find_algorithm(name) is not kind:
        raise ConfigError(
            f"algorithm is {kind.__module__}.{kind.__name__}, named {name!r}, which is not registered: an entry point "
            f'of the group {_GROUP}, NAME = "{kind.__module__}:{kind.__name__}", is required'
        )


def read_algorithm(record: dict[str, Any]) -> "Algorithm":
    """Settings from JSON, whose name says of which algorithm they are; raises ConfigError, naming the field."""
    from headrace.fields import read_fields

    settings = dict(record)
    name = settings.pop("name", None)
    require("name", f"{name!r:.60}", name in algorithm_names(), f"one of {', '.join(algorithm_names())}")
    return read_fields(find_algorithm(name), settings)


@functools.cache
def _added() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # slow to import, and the package itself imports this module

    return {entry.name: entry for entry in entry_points(group=_GROUP) if entry.name not in BUILT_IN}


def _load(entry: "EntryPoint") -> "type[Algorithm]":
    from headrace.algorithms.config import Algorithm

    place = f'algorithm {entry.name}: entry point "{entry.name} = {entry.value}" of {_GROUP}'
    try:
        kind = entry.load()
    except (Exception, SystemExit) as error:  # anything may happen while the package is imported
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{place} can't be loaded: {problem}") from error
    if not (isinstance(kind, type) and issubclass(kind, Algorithm) and getattr(kind, "name", None) == entry.name):
        raise ConfigError(f'{place} is {kind!r:.60}; a subclass of Algorithm whose name is "{entry.name}" is required')
    missing = [name for name in ("summary", "action_kinds") if not getattr(kind, name, None)]
    missing += sorted(kind.__abstractmethods__)
    if missing:
        raise ConfigError(f"{place} has no {', '.join(missing)}: an algorithm must have them")
    try:
        kind()
    except Exception as error:
        problem = " ".join(f"{error}".split())
        raise ConfigError(f"{place} can't be made with its defaults: {problem}") from error
    return kind
