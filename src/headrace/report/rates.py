"""Speeds of a run that is under way, from its records of progress."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["begun_seconds", "steady_rate"]

Record = Mapping[str, Any]


def begun_seconds(progress: Sequence[Record]) -> float | None:
    """Time of the first record with all processes alive and with updates; None if there is none."""
    begun = (
        record["seconds"]
        for record in progress
        if record["learner_steps"] and record["actors_alive"] >= record["actors_total"]
    )
    return next(begun, None)


def steady_rate(progress: Sequence[Record], field: str, warm_seconds: float = 0.0) -> float | None:
    """Rate of a count per second of training, from `warm_seconds` after the start; None if the run ended before."""
    begun = begun_seconds(progress)
    window = [record for record in progress if begun is not None and record["seconds"] >= begun + warm_seconds]
    if len(window) < 2 or window[-1]["seconds"] <= window[0]["seconds"]:
        return None
    first, last = window[0], window[-1]
    return float((last[field] - first[field]) / (last["seconds"] - first["seconds"]))
