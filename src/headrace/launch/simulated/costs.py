"""What the work of a run costs in simulated time: seconds on one core."""

import dataclasses
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.errors import require
from headrace.fields import errors_of, read_input, read_object
from headrace.values import parse_duration

__all__ = ["WORK", "Cost", "Costs"]

_MOST = 1e6
"""Of every number in a file of costs."""


def _require_number(name: str, value: object) -> None:
    valid = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    require(name, f"{value!s:.60}", valid, f"a number from 0 to {_MOST:g}")


@dataclass(frozen=True)
class Cost:
    """The time of one kind of work: log-normal, with this mean."""

    seconds: float = 0.0
    """Mean of one call on an idle core."""
    per_row: float = 0.0
    """The same for each environment of the call."""
    spread: float = 0.0
    """Standard deviation relative to the mean."""
    per_byte: float = 0.0
    """Mean of each byte of a message."""

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            _require_number(name, value)

    def draw(self, count: int, generator: random.Random) -> float:
        """Seconds of one call for `count` environments, or bytes."""
        mean = self.seconds + count * (self.per_row + self.per_byte)
        if not self.spread or not mean:
            return mean
        variance = math.log1p(self.spread**2)
        return mean * math.exp(generator.gauss(0.0, math.sqrt(variance)) - variance / 2)


WORK: Mapping[str, Cost] = MappingProxyType(
    {
        "environment": Cost(per_row=20e-6, spread=0.1),
        "inference": Cost(40e-6, 2e-6, 0.1),
        "gradient": Cost(400e-6, spread=0.1),
        "apply": Cost(40e-6, spread=0.1),
        "sum": Cost(5e-6),
        "wait": Cost(20e-6, spread=0.1),
        "poll": Cost(5e-6),
        "transfer": Cost(5e-6),
        "priorities": Cost(10e-6),
        "push": Cost(5e-6, 1e-6),
        "pull": Cost(5e-6),
        "load": Cost(5e-6),
        "publish": Cost(50e-6),
        "other": Cost(5e-6),
        "encode": Cost(500e-6),
        "session": Cost(1e-3),
        "quantize": Cost(2e-3),
        "model": Cost(2e-3, spread=0.1),
        "rollouts": Cost(5e-3, spread=0.1),
        "start": Cost(1.0, spread=0.1),
        "request": Cost(5e-6, per_byte=0.1e-9),
        "answer": Cost(5e-6, per_byte=0.1e-9),
    }
)
"""Round numbers for a small network and environment, not measured.

Work by the names of phases; further: gradient and apply, the two parts of a learner's phase "train", and sum instead of
apply for a gradient that is only added to others; poll, instead of wait, where there is no batch yet; encode, of a
policy by the publisher; session, of a new policy by an actor; quantize; model and rollouts, of a planner; start, of a
role's process; request and answer, a request to the server as the work of the role and of the server.
"""
_EVALUATION = "evaluation"
"""The inference of the evaluator, whose policy has full precision; where no cost is given, that of inference."""
_MESSAGES = ("request", "answer")
_SHARES = ("contention", "switching")
_PARTS = {"train": ("gradient", "apply")}


@dataclass(frozen=True)
class Costs:
    """The cost of every kind of work, and what busy cores cost each other."""

    work: Mapping[str, Cost] = field(default_factory=lambda: WORK)
    contention: float = 0.0
    """By how much longer all work takes when all cores are busy, relative to one busy core."""
    switching: float = 0.0
    """By how much longer all work takes when two or more threads share each core, relative to one on each."""

    def __post_init__(self) -> None:
        for name in _SHARES:
            _require_number(name, getattr(self, name))

    def draw(self, name: str, count: int, charged: set[str], generator: random.Random) -> float:
        """Seconds of this work for `count` environments, or bytes; work that is not listed costs nothing.

        `charged` has what was charged of the current update before its phase ends; this keeps it up to date.
        """
        if name in _PARTS:
            left = [part for part in _PARTS[name] if part not in charged and not (part == "apply" and "sum" in charged)]
            charged.clear()
            return sum(self.work[part].draw(1, generator) for part in left)
        if name in ("gradient", "apply") and name in charged:
            return 0.0  # an update of several vectors
        if name in ("gradient", "apply", "sum"):
            charged.add(name)
        cost = self.work.get("inference" if name == _EVALUATION and name not in self.work else name)
        return cost.draw(count, generator) if cost else 0.0

    @staticmethod
    def read(path: Path) -> "Costs":
        """Reads a JSON object from kinds of work to seconds, "5ms", or {seconds, per_row, spread}.

        Those of messages have per_byte instead of per_row; contention and switching are numbers.

        A single time of "environment" is that of one step of one environment. What is left out keeps its default.
        Raises ConfigError.
        """
        record = read_object(read_input("costs", path, "a JSON file"), f"costs: {path}")
        record.pop("calibration", None)
        shares = {name: record.pop(name) for name in _SHARES if name in record}
        return Costs({**WORK, **{name: _read(name, value, path) for name, value in record.items()}}, **shares)

    def to_record(self) -> dict[str, Any]:
        """As JSON."""
        work = {name: dataclasses.asdict(cost) for name, cost in self.work.items()}
        return {**{name: getattr(self, name) for name in _SHARES}, **work}


def _read(name: str, value: object, path: Path) -> Cost:
    where = f"costs: {name} of {path}"
    names = (*WORK, _EVALUATION)
    require(where, name, name in names, f"one of {', '.join(names)}")
    if isinstance(value, dict):
        unknown = set(value) - {each.name for each in dataclasses.fields(Cost)}
        factor, other = ("per_byte", "per_row") if name in _MESSAGES else ("per_row", "per_byte")
        require(where, ", ".join(sorted(map(str, unknown))), not unknown, f"only seconds, {factor} and spread")
        with errors_of(where):
            cost = Cost(**value)
        require(f"{where}: {other}", getattr(cost, other), not getattr(cost, other), f"0, or {factor} instead")
        return cost
    try:
        seconds = parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        seconds = None
    valid = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    require(where, f"{value!r:.60}", valid, "seconds, a duration such as 5ms, or an object")
    assert isinstance(seconds, int | float)
    with errors_of(where):
        return Cost(per_row=seconds) if name == "environment" else Cost(seconds)
