"""What the rows say beside what was published and beside what is required."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from headrace.settings import preset
from headrace.studies.downpour.sources import PublishedTime, published_times
from headrace.studies.statistics import mean, median

__all__ = ["TRANSPORTS", "Comparison", "Rows", "compare", "final_scores", "medians", "of_system", "systems"]

Rows = Sequence[Mapping[str, Any]]
"""Rows of a sheet."""
System = tuple[str, str, str, int, int | None, str | None]
"""label, environment, topology, workers, fetch period, policy."""

TRANSPORTS = {"shared": "shared memory", "unix": "Unix socket", "tcp": "TCP, loopback"}
"""What the page calls them."""
_SHARE = 0.10
_PASS_NOTE = "a pass by NumPy, in the worker's process; benchmarks.shards judges it by a C pass beside it"
_SNAKE, _SNAKE_SCORE, _SNAKE_PUBLISHED = "headrace/Snake-v0", 20.0, "19.2 (another's, the best that is published)"
_UPDATES_PER_SECOND = {"shared": 2000.0, "unix": 1000.0}
_SYSTEM = ("label", "environment", "topology", "workers", "fetch_period", "policy")


class Comparison(NamedTuple):
    """One figure of ours; `published` and `required` are empty where there is none."""

    figure: str
    where: str
    ours: float
    published: str
    required: str
    verdict: str
    note: str = ""

    @property
    def shortfall(self) -> float:
        """How far short of what is required, as a ratio: above 1 it is missed. 0 where nothing is."""
        sign, _, limit = self.required.partition(" ")
        if not limit:
            return 0.0
        if sign == "<=":
            return self.ours / float(limit)
        return float(limit) / self.ours if self.ours > 0 else inf


def compare(timing: Rows, reward: Rows) -> list[Comparison]:
    """The rows of both parts; other parts have nothing to be held against."""
    return [*_timing(timing), *_reward(reward)]


def medians(rows: Rows, **chosen: Any) -> dict[str, float]:
    """Of each column with numbers, the median over the rows that have these values; empty where there are none."""
    these = [row for row in rows if all(row[column] == value for column, value in chosen.items())]
    if not these:
        return {}
    columns = [column for column, value in these[0].items() if isinstance(value, int | float)]
    return {column: median([row[column] for row in these]) for column in columns}


def systems(rows: Rows) -> list[System]:
    """What was trained, in the rows' order; seeds apart."""
    keys = (tuple(row[field] for field in _SYSTEM) for row in rows)
    return list(dict.fromkeys(keys))


def of_system(rows: Rows, system: System) -> list[Mapping[str, Any]]:
    """A system's rows, one for each seed."""
    return [row for row in rows if tuple(row[field] for field in _SYSTEM) == system]


def final_scores(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """Of each run that was evaluated at its end."""
    return [row["final_return"] for row in rows if row["final_return"] is not None]


def _timing(rows: Rows) -> Iterator[Comparison]:
    for pixels, published in published_times().items():
        for transport, title in TRANSPORTS.items():
            ours = medians(rows, pixels=pixels, transport=transport)
            if ours:
                yield from _times(ours, published, f"{pixels} x {pixels}, {title}", transport)


def _times(ours: Mapping[str, float], published: PublishedTime, where: str, transport: str) -> Iterator[Comparison]:
    said = f"{published.share:.1%}"
    yield _at_most("push and fetch / gradient", where, ours["share"], said, _SHARE)
    yield Comparison("apply / one pass over its memory", where, ours["apply_passes"], "", "", "", _PASS_NOTE)
    rate, said = ours["updates_per_second"], f"{published.updates_per_second:.0f}"
    least = _UPDATES_PER_SECOND.get(transport)
    if least is not None and published.pixels == min(published_times()):
        verdict = "holds" if rate >= least else "MISSED"
        yield Comparison("updates/s of one pusher", where, rate, said, f">= {least:g}", verdict)
    else:
        yield Comparison("updates/s of one pusher", where, rate, said, "", "")


def _at_most(figure: str, where: str, ours: float, published: str, most: float) -> Comparison:
    return Comparison(figure, where, ours, published, f"<= {most:g}", "holds" if ours <= most else "MISSED")


def _snake(scores: Sequence[float], steps: float) -> Comparison:
    """Judged where the preset was trained to its end."""
    figure, where, ours = "final score on Snake", f"serial, the preset's settings, {steps:,.0f} steps", mean(scores)
    note, asked = f"{len(scores)} seed{'s' * (len(scores) > 1)}", preset(_SNAKE).steps
    if steps < asked:
        note = f"{note}; the preset has {asked:,} steps, and only then is >= {_SNAKE_SCORE:g} required"
        return Comparison(figure, where, ours, _SNAKE_PUBLISHED, "", "", note)
    verdict = "holds" if ours >= _SNAKE_SCORE else "MISSED"
    return Comparison(figure, where, ours, _SNAKE_PUBLISHED, f">= {_SNAKE_SCORE:g}", verdict, note)


def _reward(rows: Rows) -> Iterator[Comparison]:
    """Snake's score; and each distributed system beside the serial one of the same settings, in score and rate."""
    snake = [row for row in rows if (row["label"], row["environment"], row["topology"]) == ("ours", _SNAKE, "serial")]
    snake_scores = final_scores(snake)
    if snake_scores:
        yield _snake(snake_scores, median([row["environment_steps"] for row in snake]))
    for system in systems(rows):
        label, environment, topology, workers, *_ = system
        serial = [
            row for row in rows
            if (row["label"], row["environment"], row["topology"]) == (label, environment, "serial")
        ]  # fmt: skip
        if topology == "serial" or not serial:
            continue
        ours = of_system(rows, system)
        where = f"{label} settings, {workers} workers"
        scores, baseline = final_scores(ours), final_scores(serial)
        if scores and baseline:
            spread = f"; standard deviation of serial {np.std(baseline, ddof=1):.3g}" if len(baseline) > 1 else ""
            note = f"{len(scores)} and {len(baseline)} seeds{spread}"
            difference = mean(scores) - mean(baseline)
            yield Comparison("final score, less that of serial", where, difference, "", "", "", note)
        rate, alone = (median([row["updates_per_second"] for row in group]) for group in (ours, serial))
        if rate > 0 and alone > 0:  # not nan, of runs too short to tell
            yield Comparison("updates/s / updates/s of serial", where, rate / alone, "", "", "")
