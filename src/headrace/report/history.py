"""A run's records by kind, without those that a resumed run repeated."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["History", "collect", "column"]

Record = Mapping[str, Any]


class History(NamedTuple):
    """The records of a run by kind, each list in chronological order."""

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
    for record in records:
        kind = record.get("kind")
        if kind == "resume":
            for repeated in (history.progress, history.evaluations, history.quantizations):
                repeated[:] = [old for old in repeated if old["seconds"] <= record["seconds"]]
        if kind in places:
            places[kind].append(record)
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
