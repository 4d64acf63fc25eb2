"""What a study varies: settings by the names of their flags, each with the values that it may have."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_type_hints

from headrace.errors import ConfigError, require
from headrace.fields import errors_of, fits, require_fit, required_of
from headrace.settings import RunConfig
from headrace.training.assembly import given_device
from headrace.values import parse_count, parse_duration, parse_number

__all__ = ["KINDS", "Space", "apply", "read_spaces"]

KINDS = "log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH or choice:A,B,..."
"""How the values of a setting are written."""
_PARTS = ("algorithm", "topology")
"""Fields of a run's configuration whose own fields are settings too."""
_FIXED = {
    *_PARTS,
    "environment",
    "steps",
    "time_limit_seconds",
    "until_score",
    "final_evaluation_episodes",
    "seed",
    "server",
    "launcher",
}
"""Fields that all trials share, or that each trial has for itself (seed). A final evaluation is a trial's score."""
_INSIDE = 0.382
"""A place between both ends of a range; a value there is checked too, because only the ends may be whole numbers."""


class Space(NamedTuple):
    """The values that one setting may have: a range of numbers, or choices."""

    name: str
    """The name of the setting's flag, such as learning-rate."""
    text: str
    """As it was written."""
    kind: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """Asks an Optuna trial for a value; a choice is a string as it was written."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.name, self.choices)
        if self.kind == "int":
            return trial.suggest_int(self.name, self.low, self.high)
        return trial.suggest_float(self.name, self.low, self.high, log=self.kind == "log")

    def probes(self) -> list[Any]:
        """Values that are checked before the study starts: every choice, or the ends of the range and one between."""
        if self.kind == "choice":
            return list(self.choices)
        inside = self.low + _INSIDE * (self.high - self.low)
        return [self.low, self.high, int(inside) if self.kind == "int" else inside]


def read_spaces(tune: Mapping[str, str], config: RunConfig) -> list[Space]:
    """Reads spaces by name, and checks them with the other settings of the run; raises ConfigError for any mistake."""
    mapping = isinstance(tune, Mapping)
    require("tune", f"{tune!r:.60}", mapping, f"a mapping of settings' names to their values, {KINDS}")
    require("tune", "empty", bool(tune), f"at least one NAME=VALUES, VALUES being {KINDS}")
    spaces: list[Space] = []
    for name, text in tune.items():
        require_fit("tune", name, str)
        require(f"tune {name}", f"{text!r:.60}", isinstance(text, str), KINDS)
        space = _read(name.replace("_", "-"), text)
        require("tune", space.name, space.name not in [other.name for other in spaces], "given once for each setting")
        _part_of(config, space.name)
        config.require_effect(space.name.replace("-", "_"))
        with errors_of(f"tune {space.name}={text}"):
            for value in space.probes():
                _require_usable(apply(config, {space.name: value}))
        spaces.append(space)
    return spaces


def apply(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """The configuration with these values; strings are read as their setting's type. Raises ConfigError."""
    changes: dict[str, dict[str, Any]] = {part: {} for part in ("", *_PARTS)}
    for name, value in values.items():
        part = _part_of(config, name)
        field = name.replace("-", "_")
        hint = get_type_hints(type(getattr(config, part) if part else config))[field]
        changes[part][field] = _read_choice(field, value, hint) if isinstance(value, str) else value
    parts = {part: dataclasses.replace(getattr(config, part), **changes[part]) for part in _PARTS if changes[part]}
    return dataclasses.replace(config, **parts, **changes[""])


def _require_usable(config: RunConfig) -> None:
    """Raises ConfigError for what a run refuses before it has created its environment."""
    config.topology.require_algorithm(config.algorithm)
    if config.launcher.local:  # the nodes of a cluster may have other devices
        given_device(config)


def _read(name: str, text: str) -> Space:
    """One space, whose setting may not exist."""
    field = f"tune {name}"
    kind, _, rest = text.partition(":")
    if kind == "choice":
        choices = tuple(choice.strip() for choice in rest.split(","))
        valid = all(choices) and len(set(choices)) == len(choices)
        require(field, text, valid, "choice:A,B,... with different values")
        return Space(name, text, kind, choices=choices)
    require(field, text, kind in ("log", "uniform", "int"), KINDS)
    ends = rest.split(":")
    try:
        parse = parse_duration if name.endswith("-seconds") else parse_count if kind == "int" else _float
        low, high = map(parse, ends)
    except ValueError:
        numbers = "whole numbers" if kind == "int" else "numbers"
        raise ConfigError(f"{field} is {text}; it must be {kind}:LOW:HIGH with two {numbers}") from None
    require(field, text, low < high, f"{kind}:LOW:HIGH with LOW below HIGH")
    require(field, text, kind != "log" or low > 0, "log:LOW:HIGH with LOW above 0")
    return Space(name, text, kind, low, high)


def _float(text: str) -> float:
    return float(parse_number(text))


def _part_of(config: RunConfig, name: str) -> str:
    """The part of the configuration that has a setting: algorithm, topology or, for the run itself, ""."""
    known: dict[str, str] = {}
    for part in ("", *_PARTS):
        fields = dataclasses.fields(getattr(config, part) if part else RunConfig)
        known |= {field.name.replace("_", "-"): part for field in fields if part or field.name not in _FIXED}
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        where = f"algorithm {config.algorithm.name}, topology {config.topology.name} or the run"
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ConfigError(f"tune is {name}; it must be a setting of {where} in which trials may differ{hint}")
    return known[name]


def _read_choice(field: str, text: str, hint: Any) -> Any:
    if field.endswith("_seconds"):
        with suppress(ValueError):
            return parse_duration(text)
    for value in _readings(text):
        if fits(hint, value):
            return value
    raise ConfigError(f"{field} is {text}; it must be {required_of(hint)}")


def _readings(text: str) -> Iterator[Any]:
    """What a choice may mean, the most specific first: 'none', 'true', '64', '0.5', 'adam' or '64 64'."""
    words = {"none": None, "true": True, "false": False}
    if text in words:
        yield words[text]
    for parse in (parse_count, parse_number):
        with suppress(ValueError):
            yield parse(text)
    yield text
    with suppress(ValueError):
        yield tuple(parse_count(word) for word in text.split())
    yield tuple(text.split())
