"""What the rows say beside what was published and beside what is required."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite, nan
from typing import Any, NamedTuple

from headrace.studies.page import figure_text
from headrace.studies.statistics import mean, median

__all__ = [
    "PLANNING",
    "Comparison",
    "Group",
    "Rows",
    "Spread",
    "best_sequential",
    "compare",
    "groups_of",
    "middle",
    "of",
    "reached",
    "sequential",
    "spread_of",
    "started",
    "to_target",
]

Rows = Sequence[Mapping[str, Any]]
"""Rows of a sheet."""
Group = tuple[str, str, int]
"""Variant, topology, workers."""

_TWO_WORKERS = {"hogwild": 1.6, "parameter-server": 1.4}
"""Updates per second of two workers over one, on two cores, as required."""
_RATIO_PERCENT = 5.0
_UPDATES_AFTER = 0.5


PLANNING = "real steps to the target, without planning / dyna-q"


class Comparison(NamedTuple):
    """One figure of ours; `published` and `required` are empty where there is none.

    The verdict is holds, MISSED, undecided, or empty where nothing is required.
    """

    figure: str
    where: str
    ours: float | None
    published: str
    required: str
    verdict: str
    note: str = ""


class Spread(NamedTuple):
    """The median over seeds, the least and the most; a run that was not solved counts as one without end."""

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


def groups_of(rows: Rows) -> list[Group]:
    """What there is, by variant, topology and number of workers, in the order in which each came first."""
    found = dict.fromkeys((row["variant"], row["topology"], row["workers"]) for row in rows)
    places: dict[tuple[str, str], int] = {}
    for variant, topology, _ in found:
        places.setdefault((variant, topology), len(places))
    return sorted(found, key=lambda group: (places[group[:2]], group[2]))


def of(rows: Rows, group: Group) -> Rows:
    """The rows of a group, one for each seed."""
    return [row for row in rows if (row["variant"], row["topology"], row["workers"]) == group]


def middle(rows: Rows, field: str) -> float:
    """A field's median over those rows that have it; nan where none does."""
    return median([row[field] for row in rows])


def spread_of(rows: Rows, field: str) -> Spread:
    """A field's spread; a row without it counts as infinite: a run to a target that never got there."""
    values = [inf if row[field] is None else float(row[field]) for row in rows]
    if not values:
        return Spread(nan, nan, nan)
    ordered = sorted(values)
    centre = ordered[len(ordered) // 2]
    if len(ordered) % 2 == 0:
        centre = (ordered[len(ordered) // 2 - 1] + centre) / 2
    return Spread(centre, ordered[0], ordered[-1])


def reached(rows: Rows, field: str) -> float:
    """A field's median over all rows; nan where most lack it, as runs do that never got to the target."""
    centre = spread_of(rows, field).median
    return centre if isfinite(centre) else nan


def to_target(rows: Rows, field: str) -> float:
    """A field's median over runs to a target; nan where the median run never got there, which then says nothing."""
    return reached([row if row["solved"] == "yes" else {field: None} for row in rows], field)


def started(rows: Rows) -> Rows:
    """The rows with seconds to the target that count from the end of the start; none where one does not know that."""
    if any(row["solved"] == "yes" and row["start_seconds"] is None for row in rows):
        return []
    return [
        {**row, "seconds_to_score": row["seconds_to_score"] - row["start_seconds"]} if row["solved"] == "yes" else row
        for row in rows
    ]


def sequential(runs: Rows, variant: str) -> float:
    """Median seconds to the target of an algorithm's runs in one process; nan where most don't get there."""
    return reached(of(runs, (variant, "serial", 1)), "seconds_to_score")


def best_sequential(runs: Rows) -> tuple[str, float]:
    """The algorithm that is soonest at the target in one process, and its median seconds; nan where none gets there."""
    there = {row["variant"]: sequential(runs, row["variant"]) for row in runs if row["topology"] == "serial"}
    reached = {variant: seconds for variant, seconds in there.items() if isfinite(seconds)}
    best = min(reached, key=reached.__getitem__, default="")
    return best, reached.get(best, nan)


def compare(runs: Rows, throughput: Rows, ablation: Rows, faults: Rows) -> list[Comparison]:
    """Every figure that is required, as far as it was measured."""
    return [
        *_updates(throughput),
        *_solved(runs),
        *_replay_ratios([*runs, *throughput, *ablation, *faults]),
        *_planning(ablation),
        *_disturbed(faults),
    ]


def _updates(rows: Rows) -> Iterable[Comparison]:
    for variant, topology in dict.fromkeys((row["variant"], row["topology"]) for row in rows):
        one, two = (middle(of(rows, (variant, topology, count)), "updates_per_second") for count in (1, 2))
        if not (one > 0 and isfinite(two)):  # nan, of runs that were over before they were warm
            continue
        least = _TWO_WORKERS.get(topology)
        yield _at_least("updates/s, 2 workers / 1", f"{variant}, {topology}", two / one, least)


def _solved(rows: Rows) -> Iterable[Comparison]:
    """Whether every run of an algorithm and topology came to the target, whatever the number of workers."""
    for variant, topology in dict.fromkeys((row["variant"], row["topology"]) for row in rows):
        these = [row for row in rows if (row["variant"], row["topology"]) == (variant, topology)]
        solved = sum(row["solved"] == "yes" for row in these)
        missing = [f"{row['workers']} workers, seed {row['seed']}" for row in these if row["solved"] != "yes"]
        yield _at_least(
            "runs that reach the target (%)", f"{variant}, {topology}", 100 * solved / len(these), 100.0
        )._replace(note=f"not by {'; '.join(missing)}" if missing else "")


def _replay_ratios(rows: Rows) -> Iterable[Comparison]:
    known = [row for row in rows if row["samples_per_step"] is not None and row["samples_per_step_set"]]
    if known:
        worst = max(known, key=_ratio_error)
        where = f"{worst['variant']}, {worst['topology']} × {worst['workers']}, seed {worst['seed']}, where it is worst"
        error = _ratio_error(worst)
        yield Comparison(
            "samples per step, off what is set (%)", where, error, "", f"<= {_RATIO_PERCENT:g}",
            "holds" if error <= _RATIO_PERCENT else "MISSED",
        )  # fmt: skip


def _ratio_error(row: Mapping[str, Any]) -> float:
    return float(100 * abs(row["samples_per_step"] / row["samples_per_step_set"] - 1))


def _planning(rows: Rows) -> Iterable[Comparison]:
    """Steps to the target of what does not plan, over those of Dyna-Q: above 1 planning saves real steps.

    It is decided where the one's runs are all sooner than the other's; a single run of either has no spread, and
    decides nothing.
    """
    own_rows = [row for row in rows if row["variant"] == "dyna-q"]
    own = spread_of(own_rows, "steps_to_score")
    for variant in dict.fromkeys(row["variant"] for row in rows if row["variant"] != "dyna-q"):
        others = [row for row in rows if row["variant"] == variant]
        other = spread_of(others, "steps_to_score")
        if not own_rows:
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
        notes += [
            f"{name} mostly did not reach the target"
            for name, spread in (("dyna-q", own), (variant, other))
            if spread.median == inf
        ]
        ratio = other.median / own.median if isfinite(own.median) and isfinite(other.median) else None
        yield Comparison(PLANNING, variant, ratio, "", "> 1, spreads apart", verdict, "; ".join(notes))


def _disturbed(rows: Rows) -> Iterable[Comparison]:
    """Whether runs that lost workers went on, with all of them; and their mean score against the calm ones' lowest."""
    for topology in dict.fromkeys(row["topology"] for row in rows):
        these = [row for row in rows if row["topology"] == topology]
        calm = [row["score"] for row in these if not row["killed"] and row["score"] is not None]
        hit = [row for row in these if row["killed"]]
        shares = [row["updates_after_death_share"] for row in hit if row["updates_after_death_share"] is not None]
        if shares:
            figure = "updates after a worker was killed / those due, least of a run"
            yield _at_least(figure, topology, min(shares), _UPDATES_AFTER)
        ends = [row["alive_at_end"] >= row["workers"] for row in hit if row["alive_at_end"] is not None]
        if ends:
            yield _at_least("runs whose killed worker came back (%)", topology, 100 * sum(ends) / len(ends), 100.0)
        scores = [row["score"] for row in hit if row["score"] is not None]
        if calm and scores:
            low, centre, high = (figure_text(value) for value in (min(calm), mean(calm), max(calm)))
            note = f"lowest {figure_text(min(scores))}; undisturbed: mean {centre}, {low} to {high}, {len(calm)} seeds"
            figure = "mean score, a quarter of the workers killed on the way"
            yield _at_least(figure, topology, mean(scores), min(calm))._replace(note=note)


def _at_least(figure: str, where: str, ours: float, least: float | None) -> Comparison:
    if least is None:
        return Comparison(figure, where, ours, "", "", "")
    required = f">= {figure_text(least)}"
    return Comparison(figure, where, ours, "", required, "holds" if ours >= least else "MISSED")
