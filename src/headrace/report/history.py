"""A run's records by kind, without those that a resumed run repeated."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["History", "collect", "column"]

Record = Mapping[str, Any]

_MOST_PROGRESS = 10_000
"""Records of progress, of which each takes 6 kB: one a second is written."""


class History(NamedTuple):
    """The records of a run by kind, each list in chronological order.

    Of a long run, `progress` has every second, fourth, ... record, and the last one.
    """

    progress: list[Record]
    evaluations: list[Record]
    resumes: list[Record]
    exits: list[Record]
    quantizations: list[Record]
    precisions: list[Record]


def collect(records: Iterable[Record]) -> History:
    """Sorts the records of metrics.jsonl by kind.

    A run resumed from a checkpoint repeats the steps after that checkpoint: their earlier records are left out.
    """
    history = History([], [], [], [], [], [])
    places = {
        "progress": history.progress,
        "evaluation": history.evaluations,
        "resume": history.resumes,
        "exit": history.exits,
        "quantization": history.quantizations,
        "precision": history.precisions,
    }
    last: Record | None = None
    number, period = 0, 1  # of the records of progress, of which one in `period` is kept
    for record in records:
        kind = record.get("kind")
        if kind == "resume":
            for repeated in (history.progress, history.evaluations, history.quantizations):
                repeated[:] = [old for old in repeated if old["seconds"] <= record["seconds"]]
            last = last if last is not None and last["seconds"] <= record["seconds"] else None
        if kind == "progress":
            last, number = record, number + 1
            if number % period:
                continue
        if kind in places:
            places[kind].append(record)
        if len(history.progress) > _MOST_PROGRESS:
            del history.progress[::2]
            period *= 2
    if last is not None and (not history.progress or history.progress[-1] is not last):
        history.progress.append(last)
    return history


def column(records: Iterable[Record], *keys: str, points: int = 400) -> tuple[NDArray[np.float64], ...]:
    """The keys' values as arrays of equal length, averaged to at most `points`; records that lack a key are left out.

    A key with a dot reaches into a mapping: "actor_times.push".
    """
    rows = [[_reach(record, key) for key in keys] for record in records]
    table = np.array([row for row in rows if None not in row], dtype=np.float64).reshape(-1, len(keys))
    if len(table) > points:
        edges = np.linspace(0, len(table), points + 1).astype(int)
        table = np.array([table[start:end].mean(axis=0) for start, end in itertools.pairwise(edges)])
    return tuple(table.T)


def _reach(record: Record, key: str) -> float | None:
    value: Any = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if value is None else float(value)
