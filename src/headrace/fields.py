"""Checks values of fields against their type hints, for settings from Python, the command line and JSON."""

import contextlib
import dataclasses
import functools
import json
import math
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headrace.errors import ConfigError, require

__all__ = [
    "MOST_STEPS",
    "check_types",
    "errors_of",
    "fits",
    "read_choice",
    "read_fields",
    "read_input",
    "read_json",
    "read_object",
    "require_fit",
    "require_positive",
    "require_unused",
    "required_of",
    "write_fields",
    "write_json",
]

T = TypeVar("T")

_hints = functools.cache(get_type_hints)
_SHOWN = 60
"""Number of characters of a value that a message shows."""
_MOST_BYTES = 50_000_000
"""Of a file of settings."""

MOST_STEPS = 10**15
"""Limit on counts of steps, updates or episodes: more than any run needs, and exact as a float."""


def check_types(config: object) -> None:
    """Raises ConfigError for the first field of a dataclass whose value does not have its type.

    A whole number is accepted as a float. A bool, NaN or infinity is not accepted as a number.
    """
    for name, hint in _field_hints(type(config)).items():
        require_fit(name, getattr(config, name), hint)


def require_positive(config: object, *fields: str, most: float = math.inf) -> None:
    """Raises ConfigError for the first of these fields that is not above 0 or is above `most`."""
    for field in fields:
        value = getattr(config, field)
        require(field, value, value > 0, "above 0")
        require(field, value, value <= most, f"at most {most:,}")


def require_unused(config: object, field: str, unused: bool, condition: str) -> None:
    """Raises ConfigError if a setting without effect is not the default."""
    value = getattr(config, field)
    require(field, value, not unused or value == getattr(type(config), field), f"the default unless {condition}")


def fits(hint: Any, value: object) -> bool:
    """Whether a value has the type of a hint."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin in (Union, types.UnionType):
        return any(fits(part, value) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(parts[0], part) for part in value)
    if hint in (int, float):
        return _is_number(hint, value)
    return hint is Any or isinstance(value, origin or hint)


def required_of(hint: Any) -> str:
    """The requirement of fits() in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _either([str(part) for part in parts])
    if origin in (Union, types.UnionType):
        return _either([required_of(part) for part in parts])
    if origin is tuple:
        return f"a tuple of values, each {required_of(parts[0])}"
    names = {
        int: "a whole number",
        float: "a finite number",
        bool: "true or false",
        str: "a string",
        Path: "a path",
        type(None): "none",
        dict: "an object",
        list: "an array",
    }
    return names.get(origin or hint) or f"an object with the fields of {hint.__name__}"


def read_fields(kind: type[T], record: object, **given: Any) -> T:
    """Creates a dataclass from a JSON object; according to the hints, arrays become tuples and strings paths.

    Nested objects become dataclasses. `given` are fields that the caller has read. Raises ConfigError, which names the
    field, for one that is missing, unknown or of another type, and any error of the dataclass.
    """
    name = kind.__name__
    if not isinstance(record, dict):
        raise ConfigError(f"{name} is {_shown(record)}; it must be an object")
    hints = _field_hints(kind)
    for key in record:
        if key not in hints or key in given:
            raise ConfigError(f"{key} is {_shown(record[key])}; {name} has no such field, and it must be left out")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.name not in given}  # type: ignore[arg-type]
    values = {}
    for key, field in fields.items():
        if key in record:
            with errors_of(key) if isinstance(record[key], dict) else contextlib.nullcontext():
                values[key] = _from_json(hints[key], record[key])
            require_fit(key, values[key], hints[key])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{key} is missing; {name} must have it")
    return kind(**values, **given)


def read_choice(kinds: Mapping[Any, type[T]], record: dict[str, Any], key: str) -> T:
    """Creates a dataclass as read_fields() does, of the kind that the text at `key` of the JSON object chooses."""
    fields = dict(record)
    name = fields.pop(key, None)
    require(key, f"{name!r:.60}", name in (*kinds,), f"one of {', '.join(kinds)}")
    return read_fields(kinds[name], fields)


def read_input(field: str, path: str | Path, what: str = "a file", most: int = _MOST_BYTES) -> bytes:
    """The bytes of a file, or of a pipe, that the setting `field` names; `what` says what it must be.

    Raises ConfigError if it can't be read or has more bytes than `most`, such as one without end.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{field} is {path}; it must be {what} that can be read: {error.strerror}") from None
    except ValueError as error:  # no file can have this name
        raise ConfigError(f"{field} is {str(path)!r:.60}; it must be {what} that can be read: {error}") from None
    require(field, path, len(data) <= most, f"{what} of at most {most} bytes")
    return data


def read_json(kind: type[T], text: str | bytes, what: str) -> T:
    """Creates a dataclass from JSON; raises ConfigError like read_fields(), prefixed with `what` the text should be."""
    record = read_object(text, what)
    with errors_of(what):
        return read_fields(kind, record)


def write_fields(config: object) -> dict[str, Any]:
    """A dataclass as a JSON object that read_fields() reads: dataclasses become objects, tuples arrays, paths texts.

    A field whose class has `to_record` and `from_record` is written and read by these methods, such as one whose class
    is chosen by a name in the JSON.
    """
    names = (field.name for field in dataclasses.fields(config))  # type: ignore[arg-type]
    return {name: _to_json(getattr(config, name)) for name in names}


def write_json(config: object) -> str:
    """A dataclass as JSON in one line; read_json() reads it back."""
    return json.dumps(_to_json(config))


@contextlib.contextmanager
def errors_of(what: str) -> Iterator[None]:
    """A context that prefixes the message of a ConfigError with `what`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from error


def read_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Parses a JSON object; raises ConfigError, which says `what` the text should be, for anything else."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise ConfigError(f"{what} is {_shown(record)}; it must be an object")
    return record


def _field_hints(kind: type) -> Mapping[str, Any]:
    hints = _hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def require_fit(name: str, value: object, hint: Any) -> None:
    """Raises ConfigError with this name for a value that does not have the type of a hint."""
    if not fits(hint, value):
        plain = get_origin(hint) is Literal and isinstance(value, str) and value.isprintable()
        other = ", of Python and not of NumPy" if type(value).__module__ == "numpy" else ""
        require(name, value if plain else _shown(value), False, required_of(hint) + other)


def _from_json(hint: Any, value: Any) -> Any:
    """The value converted to its field's type; one that does not fit is left to require_fit()."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        converted = (_from_json(part, value) for part in parts)
        return next((each for part, each in zip(parts, converted, strict=True) if fits(part, each)), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_from_json(parts[0], part) for part in value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hasattr(hint, "from_record") and isinstance(value, dict):
        return hint.from_record(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return read_fields(hint, value)
    return value


def _to_json(value: Any) -> Any:
    if hasattr(value, "to_record"):
        return value.to_record()
    if dataclasses.is_dataclass(value):
        return write_fields(value)
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _is_number(kind: type, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | kind):
        return False
    try:
        return kind is int or math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # a whole number too large for a float
        return False


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
