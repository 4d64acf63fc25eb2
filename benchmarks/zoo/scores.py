"""Figures of the runs, by system and task."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headrace.types import Array

__all__ = ["Place", "Rows", "Taken", "cells", "fewer", "median", "relative", "shared_tasks", "taken"]

Rows = Sequence[Mapping[str, str]]
Place = tuple[str, str]
"""System and task."""


class Taken(NamedTuple):
    """What a run took to reach its threshold, or else more than what: infinite if it diverged or had all its steps."""

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
        whole = row["ended"] == "diverged" or float(row["environment_steps"] or 0) >= float(row["most_steps"])
        value = float(row[column] or (math.inf if whole else row[until_the_end] or 0.0))
        found.setdefault((row["system"], row["task"]), []).append(Taken(value, bool(row[column])))
    return found


def fewer(ours: Sequence[Taken], theirs: Sequence[Taken]) -> float:
    """Probability that a run of ours takes less than one of theirs; nan if most pairs of runs do not tell.

    Pairs that do not tell, and ties, count half (Mann and Whitney 1947, Gehan 1965).
    """
    pairs = [_first(one, other) for one in ours for other in theirs]
    told = [each for each in pairs if each is not None]
    return (sum(told) + 0.5 * (len(pairs) - len(told))) / len(pairs) if 2 * len(told) >= len(pairs) else math.nan


def _first(one: Taken, other: Taken) -> float | None:
    """1 if `one` takes less, 0 if `other` does, a half if they take the same, None if that is not known."""
    if one.reached == other.reached and (one.reached or one.value == other.value == math.inf):
        return float(one.value < other.value) + 0.5 * float(one.value == other.value)
    if one.reached and one.value <= other.value:
        return 1.0
    return 0.0 if other.reached and other.value <= one.value else None


def median(runs: Sequence[Taken]) -> float:
    """The median; infinite if that run did not reach its threshold."""
    return float(np.median([each.value if each.reached else math.inf for each in runs]))


def relative(values: Mapping[Place, Sequence[Taken]], to: str) -> dict[Place, list[float]]:
    """How many times less a run took than the median of system `to` in the same task; 0 if it did not get there.

    Tasks in which the median run of `to` did not are left out.
    """
    medians = {task: median(runs) for (system, task), runs in values.items() if system == to}
    return {
        (system, task): [medians[task] / each.value if each.reached else 0.0 for each in runs]
        for (system, task), runs in values.items()
        if math.isfinite(medians.get(task, math.inf))
    }


def shared_tasks(values: Mapping[Place, Sequence[float]], systems: Sequence[str]) -> dict[str, Array]:
    """Values [seeds, tasks] of each system, over the tasks that all have and as many seeds as its tasks all have."""
    tasks = [name for system, name in values if system == systems[0]]
    tasks = [name for name in tasks if all((system, name) in values for system in systems)]
    if not tasks:
        return {}
    seeds = {system: min(len(values[system, name]) for name in tasks) for system in systems}
    return {system: np.array([values[system, name][: seeds[system]] for name in tasks]).T for system in systems}
