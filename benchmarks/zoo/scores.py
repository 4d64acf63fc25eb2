"""Scores and figures of the runs, by system and task."""

from collections.abc import Mapping, Sequence

import numpy as np

from headrace.types import Array

__all__ = ["Rows", "cells", "normalized_scores", "shared_tasks"]

Rows = Sequence[Mapping[str, str]]


def cells(rows: Rows, column: str, *others: str) -> dict[tuple[str, str], list[float]]:
    """A column's values by system and task, by ascending seed; an empty one is the first of the others that is not."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        value = next((row[name] for name in (column, *others) if row[name]), "")
        if value:
            found.setdefault((row["system"], row["task"]), []).append(float(value))
    return found


def normalized_scores(rows: Rows) -> dict[tuple[str, str], list[float]]:
    """Final scores by system and task: 0 is the mean of random actions, 1 the required score.

    A run that ended without a score counts as random actions. Tasks without a measured random score are left out.
    """
    zeros = {
        task: float(np.mean(values))
        for (system, task), values in cells(rows, "fresh_mean").items()
        if system == "random"
    }
    ones = {row["task"]: float(row["required"]) for row in rows}
    scores = cells([{"zero": str(zeros.get(row["task"], "")), **row} for row in rows], "fresh_mean", "zero")
    return {
        (system, task): [(value - zeros[task]) / (ones[task] - zeros[task]) for value in values]
        for (system, task), values in scores.items()
        if system != "random" and task in zeros
    }


def shared_tasks(values: Mapping[tuple[str, str], Sequence[float]], systems: Sequence[str]) -> dict[str, Array]:
    """Values [seeds, tasks] of each system, over the tasks and the first seeds that all of them have; empty if none."""
    tasks = [name for system, name in values if system == systems[0]]
    tasks = [name for name in tasks if all((system, name) in values for system in systems)]
    if not tasks:
        return {}
    seeds = min(len(values[system, name]) for system in systems for name in tasks)
    return {system: np.array([values[system, name][:seeds] for name in tasks]).T for system in systems}
