"""Groups of rows and their figures; compares them with published and required figures."""

from collections.abc import Iterator
from math import inf, isfinite, nan
from statistics import median
from typing import Any, NamedTuple

from headrace.studies.comparisons import Comparison, at_least, at_most
from headrace.studies.concurrency.cases import BY_PRIORITY
from headrace.studies.page import figure_text
from headrace.studies.sheet import Row, Rows, read_published
from headrace.studies.statistics import chosen, distinct, grouped, known, mean, middle

__all__ = [
    "COUNTERPARTS", "PLANNING", "Group", "Spread", "atari", "best_sequential", "compare", "groups_of", "lunar_lander",
    "of", "reached", "sequential", "speedup", "spread_of", "started", "to_target",
]  # fmt: skip

Group = tuple[str, str, int]
"""Variant, topology, workers."""
COUNTERPARTS = {
    "dqn_hogwild": ("dqn", "hogwild"),
    "a3c": ("a3c", "hogwild"),  # whose workers write without a lock (Mnih et al. 2016)
    "dyna_q": ("dyna-q", "apex"),
}
"""Our algorithm and topology for each published one."""
PLANNING = "real steps to the target, without planning / dyna-q"
_TWO_WORKERS = {"hogwild": 1.6, "parameter-server": 1.4}
"""Updates per second of two workers over one, on two cores, as required."""
_RATIO_PERCENT = 5.0
_UPDATES_AFTER = 0.5


class Spread(NamedTuple):
    """Median, minimum and maximum over seeds; an unsolved run counts as infinite."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        if not isfinite(self.median):
            return "–"
        if self.low == self.high:
            return figure_text(self.median)
        high = figure_text(self.high) if isfinite(self.high) else "never"
        return f"{figure_text(self.median)} ({figure_text(self.low)} to {high})"


def lunar_lander() -> dict[tuple[str, int], Row]:
    """The published runs of LunarLander to 200 by algorithm, as the source names it, and number of processes."""
    rows = read_published("concurrency", "published/lunarlander.csv")
    return {(row["algorithm"], row["processes"]): row for row in rows}


def atari() -> dict[str, dict[int, float]]:
    """Speed-ups over threads, seven Atari games' mean (Mnih et al. 2016, table 2), by method."""
    rows = read_published("concurrency", "published/atari.csv")
    return {row["method"]: {count: row[f"threads_{count}"] for count in (1, 2, 4, 8, 16)} for row in rows}


def groups_of(rows: Rows) -> list[Group]:
    """The groups of variant, topology and number of workers, in the order of their first rows."""
    kinds = distinct(rows, "variant", "topology")
    found = distinct(rows, "variant", "topology", "workers")
    return sorted(found, key=lambda group: (kinds.index(group[:2]), group[2]))


def of(rows: Rows, group: Group) -> Rows:
    """The rows of a group, one for each seed."""
    return chosen(rows, variant=group[0], topology=group[1], workers=group[2])


def spread_of(rows: Rows, field: str) -> Spread:
    """A field's spread; a row without the field, a run that missed its target, counts as infinite."""
    values = [inf if row[field] is None else float(row[field]) for row in rows]
    return Spread(median(values), min(values), max(values)) if values else Spread(nan, nan, nan)


def reached(rows: Rows, field: str) -> float:
    """A field's median over all rows; nan if most lack it, like runs that missed the target."""
    center = spread_of(rows, field).median
    return center if isfinite(center) else nan


def to_target(rows: Rows, field: str) -> float:
    """A field's median over runs to a target; nan if the median run missed the target."""
    return reached([row if row["solved"] == "yes" else {field: None} for row in rows], field)


def started(rows: Rows) -> Rows:
    """The rows with seconds to the target counted from the end of the start; none if one lacks the start."""
    if any(row["solved"] == "yes" and row["start_seconds"] is None for row in rows):
        return []
    return [
        {**row, "seconds_to_score": row["seconds_to_score"] - row["start_seconds"]} if row["solved"] == "yes" else row
        for row in rows
    ]


def sequential(runs: Rows, variant: str) -> float:
    """Median seconds to the target of an algorithm's runs in one process; nan if most miss the target."""
    return reached(of(runs, (variant, "serial", 1)), "seconds_to_score")


def best_sequential(runs: Rows) -> tuple[str, float]:
    """The algorithm that reaches the target first in one process, and its median seconds; nan if none reaches it."""
    there = {row["variant"]: sequential(runs, row["variant"]) for row in runs if row["topology"] == "serial"}
    best = min((variant for variant in there if isfinite(there[variant])), key=there.__getitem__, default="")
    return best, there.get(best, nan)


def speedup(runs: Rows, group: Group, over: Group) -> float:
    """How much sooner the median run of a group reaches the target than that of another; nan if one misses it."""
    return reached(of(runs, over), "seconds_to_score") / reached(of(runs, group), "seconds_to_score")


def compare(runs: Rows, throughput: Rows, ablation: Rows, faults: Rows) -> list[Comparison]:
    """Every measured figure with a requirement."""
    return [
        *_updates(throughput),
        *_solved(runs),
        *_replay_ratios([*runs, *throughput, *ablation, *faults]),
        *_planning(ablation),
        *_disturbed(faults),
    ]


def _updates(rows: Rows) -> Iterator[Comparison]:
    """Two workers against the faster of one worker and the serial run, which is one too."""

    def speed(*key: Any) -> float:
        found = middle(of(rows, key), "updates_per_second")
        return found if isfinite(found) else 0.0  # nan: of runs that ended before they were warm

    for variant, topology in distinct(rows, "variant", "topology"):
        one, two = max(speed(variant, topology, 1), speed(variant, "serial", 1)), speed(variant, topology, 2)
        if one > 0 and two > 0:
            least = _TWO_WORKERS.get(topology)
            yield at_least("updates/s, 2 workers / one process", f"{variant}, {topology}", two / one, least)


def _solved(rows: Rows) -> Iterator[Comparison]:
    """Whether every run of an algorithm and topology reached the target, with any number of workers."""
    for (variant, topology), these in grouped(rows, "variant", "topology"):
        missing = [f"{row['workers']} workers, seed {row['seed']}" for row in these if row["solved"] != "yes"]
        percent = 100 * (len(these) - len(missing)) / len(these)
        note = f"not by {'; '.join(missing)}" if missing else ""
        yield at_least("runs that reach the target (%)", f"{variant}, {topology}", percent, 100.0, note=note)


def _replay_ratios(rows: Rows) -> Iterator[Comparison]:
    def error(row: Row) -> float:
        return float(100 * abs(row["samples_per_step"] / row["samples_per_step_set"] - 1))

    there = [row for row in rows if row["samples_per_step"] is not None and row["samples_per_step_set"]]
    for worst in sorted(there, key=error)[-1:]:
        where = f"{worst['variant']}, {worst['topology']} × {worst['workers']}, seed {worst['seed']}, where it is worst"
        yield at_most("samples per step, off what is set (%)", where, error(worst), _RATIO_PERCENT)


def _planning(rows: Rows) -> Iterator[Comparison]:
    """Steps to the target without planning, divided by those of Dyna-Q: above 1, planning saves real steps.

    The comparison is decided if all runs of one side are faster than all of the other. A single run has no spread and
    decides nothing.
    """
    own_rows = chosen(rows, variant="dyna-q")
    own = spread_of(own_rows, "steps_to_score")
    for variant, others in grouped(rows, "variant"):
        other = spread_of(others, "steps_to_score")
        if variant in ("dyna-q", BY_PRIORITY) or not own_rows:
            continue
        verdict, notes = "undecided", [f"{variant}: {other}; dyna-q: {own}"]
        if min(len(own_rows), len(others)) < 2:
            notes.append("one run decides nothing")
        elif own.high < other.low:
            verdict = "holds"
        elif own.low > other.high or (own.median == inf > other.median):
            verdict = "MISSED"
        else:
            notes.append("spreads overlap")
        sides = (("dyna-q", own), (variant, other))
        notes += [f"{name} mostly did not reach the target" for name, side in sides if side.median == inf]
        ratio = other.median / own.median if isfinite(own.median) and isfinite(other.median) else None
        yield Comparison(PLANNING, variant, ratio, "", "> 1, spreads apart", verdict, "; ".join(notes))


def _disturbed(rows: Rows) -> Iterator[Comparison]:
    """Whether runs that lost workers recovered all of them, and their mean score against the undisturbed minimum."""
    for topology, these in grouped(rows, "topology"):
        calm, hit = known(chosen(these, killed=0), "score"), [row for row in these if row["killed"]]
        shares = known(hit, "updates_after_death_share")
        if shares:
            figure = "updates after a worker was killed / those due, least of a run"
            yield at_least(figure, topology, min(shares), _UPDATES_AFTER)
        ends = [row["alive_at_end"] >= row["workers"] for row in hit if row["alive_at_end"] is not None]
        if ends:
            yield at_least("runs whose killed worker came back (%)", topology, 100 * sum(ends) / len(ends), 100.0)
        scores = known(hit, "score")
        if calm and scores:
            low, center, high = (figure_text(value) for value in (min(calm), mean(calm), max(calm)))
            note = f"lowest {figure_text(min(scores))}; undisturbed: mean {center}, {low} to {high}, {len(calm)} seeds"
            figure = "mean score, a quarter of the workers killed on the way"
            yield at_least(figure, topology, mean(scores), min(calm), text=low, note=note)
