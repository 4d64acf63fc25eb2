"""Figures of the runs, by system and task."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headrace.types import Array

__all__ = ["Place", "Rows", "Taken", "cells", "fewer", "relative", "shared_tasks", "taken"]

Rows = Sequence[Mapping[str, str]]
Place = tuple[str, str]
"""System and task."""


class Taken(NamedTuple):
    """What a run took to reach its threshold, or until it ended without."""

    value: float
    reached: bool


def cells(rows: Rows, column: str, *others: str) -> dict[Place, list[float]]:
    """A column's values by system and task, by ascending seed; an empty one is the first of the others that is not."""
    found: dict[Place, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        value = next((row[name] for name in (column, *others) if row[name]), "")
        if value:
            found.setdefault((row["system"], row["task"]), []).append(float(value))
    return found


def taken(rows: Rows, column: str, until_the_end: str) -> dict[Place, list[Taken]]:
    """What runs took by system and task, by ascending seed; one whose `column` is empty did not reach its threshold."""
    found: dict[Place, list[Taken]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        value = row[column] or row[until_the_end] or 0.0
        found.setdefault((row["system"], row["task"]), []).append(Taken(float(value), bool(row[column])))
    return found


def fewer(ours: Sequence[Taken], theirs: Sequence[Taken]) -> float:
    """Probability that a run of ours takes less than one of theirs; nan if no pair of runs tells.

    Of a run that ended without its threshold one only knows that it takes more than what it took so far. Ties count
    half (Mann and Whitney 1947).
    """
    known = [_first(one, other) for one in ours for other in theirs]
    told = [each for each in known if each is not None]
    return sum(told) / len(told) if told else math.nan


def _first(one: Taken, other: Taken) -> float | None:
    """1 if `one` takes less, 0 if `other` does, a half if they take the same, None if that is not known."""
    if one.reached and other.reached:
        return float(one.value < other.value) + 0.5 * float(one.value == other.value)
    if one.reached and one.value <= other.value:
        return 1.0
    return 0.0 if other.reached and other.value <= one.value else None


def relative(values: Mapping[Place, Sequence[Taken]], to: str) -> dict[Place, list[float]]:
    """How many times less a run took than the median of system `to` in the same task; 0 if it did not get there.

    Tasks in which the median run of `to` did not are left out.
    """
    medians = {
        task: float(np.median([each.value if each.reached else math.inf for each in runs]))
        for (system, task), runs in values.items()
        if system == to
    }
    return {
        (system, task): [medians[task] / each.value if each.reached else 0.0 for each in runs]
        for (system, task), runs in values.items()
        if math.isfinite(medians.get(task, math.inf))
    }


def shared_tasks(values: Mapping[Place, Sequence[float]], systems: Sequence[str]) -> dict[str, Array]:
    """Values [seeds, tasks] of each system, over the tasks and the first seeds that all of them have; empty if none."""
    tasks = [name for system, name in values if system == systems[0]]
    tasks = [name for name in tasks if all((system, name) in values for system in systems)]
    if not tasks:
        return {}
    seeds = min(len(values[system, name]) for system in systems for name in tasks)
    return {system: np.array([values[system, name][:seeds] for name in tasks]).T for system in systems}
