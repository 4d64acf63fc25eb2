"""Compares the rows with published and required figures."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.report.formats import counted
from headrace.settings import preset
from headrace.studies.comparisons import Comparison, at_least, at_most
from headrace.studies.sheet import Row, Rows, read_published
from headrace.studies.statistics import chosen, grouped, known, mean, middle

__all__ = ["SYSTEM", "TRANSPORTS", "compare", "medians", "published_times"]

SYSTEM = ("label", "environment", "topology", "workers", "fetch_period", "policy")
"""The columns that identify what was trained, without the seed."""
TRANSPORTS = {"shared": "shared memory", "unix": "Unix socket", "tcp": "TCP, loopback"}
"""Names of the transports on the page."""
_SHARE = 0.10
_PASS_NOTE = "a pass by NumPy, in the worker's process; benchmarks.shards compares it with a C pass"
_SNAKE, _SNAKE_SCORE, _SNAKE_PUBLISHED = "headrace/Snake-v0", 20.0, "19.2 (another's, the best that is published)"
_UPDATES_PER_SECOND = {"shared": 2000.0, "unix": 1000.0}


def published_times() -> dict[int, Row]:
    """The published times in milliseconds by the frame's side length in pixels, with what follows from them.

    The share is that of pack, load and update in the gradient's time: 9.7 % at 16 pixels. `updates_per_second` is what
    their server could apply.
    """
    return {
        row["image_pixels"]: {
            **row,
            "share": (row["pack_ms"] + row["load_ms"] + row["server_update_ms"]) / row["gradient_ms"],
            "updates_per_second": 1e3 / row["server_update_ms"],
        }
        for row in read_published("downpour", "published/timing.csv")
    }


def compare(timing: Rows, reward: Rows) -> list[Comparison]:
    """The comparisons of both parts; the others have no published or required figures."""
    return [*_timing(timing), *_reward(reward)]


def medians(rows: Rows, **cells: Any) -> dict[str, float]:
    """The median of each numeric column over the rows with these cells; empty if there are none."""
    these = chosen(rows, **cells)
    columns = [column for column, value in these[0].items() if isinstance(value, int | float)] if these else []
    return {column: middle(these, column) for column in columns}


def _timing(rows: Rows) -> Iterator[Comparison]:
    for pixels, published in published_times().items():
        for transport, title in TRANSPORTS.items():
            ours = medians(rows, pixels=pixels, transport=transport)
            if not ours:
                continue
            where = f"{pixels} x {pixels}, {title}"
            yield at_most("push and fetch / gradient", where, ours["share"], _SHARE, f"{published['share']:.1%}")
            yield Comparison("apply / one pass over its memory", where, ours["apply_passes"], note=_PASS_NOTE)
            least = _UPDATES_PER_SECOND.get(transport) if pixels == min(published_times()) else None
            said = f"{published['updates_per_second']:.0f}"
            yield at_least("updates/s of one pusher", where, ours["updates_per_second"], least, said)


def _reward(rows: Rows) -> Iterator[Comparison]:
    """Snake's score, and each distributed system's score and rate compared with the serial one's."""
    yield from _snake(chosen(rows, label="ours", environment=_SNAKE, topology="serial"))
    for (label, environment, topology, workers, *_), ours in grouped(rows, *SYSTEM):
        serial = chosen(rows, label=label, environment=environment, topology="serial")
        if topology == "serial" or not serial:
            continue
        where = f"{label} settings, {workers} workers"
        scores, baseline = known(ours, "final_return"), known(serial, "final_return")
        if scores and baseline:
            spread = f"; standard deviation of serial {np.std(baseline, ddof=1):.3g}" if len(baseline) > 1 else ""
            note = f"{len(scores)} and {len(baseline)} seeds{spread}"
            yield Comparison("final score, less that of serial", where, mean(scores) - mean(baseline), note=note)
        rate, alone = (middle(group, "updates_per_second") for group in (ours, serial))
        if rate > 0 and alone > 0:  # not nan, as for runs that are too short
            yield Comparison("updates/s / updates/s of serial", where, rate / alone)


def _snake(rows: Rows) -> Iterator[Comparison]:
    """Judged only if the preset was trained to its end."""
    scores = known(rows, "final_return")
    if not scores:
        return
    steps, all_steps = middle(rows, "environment_steps"), preset(_SNAKE).steps
    where, note = f"serial, the preset's settings, {steps:,.0f} steps", counted(len(scores), "seed")
    least = _SNAKE_SCORE if steps >= all_steps else None
    if least is None:
        note += f"; the preset has {all_steps:,} steps, and only then is >= {_SNAKE_SCORE:g} required"
    yield at_least("final score on Snake", where, mean(scores), least, _SNAKE_PUBLISHED, note=note)
