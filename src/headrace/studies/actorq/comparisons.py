"""Compares the rows with published and required figures."""

from collections.abc import Iterator
from math import isnan, nan
from typing import NamedTuple

import numpy as np

from headrace.report.formats import counted
from headrace.studies.actorq.acting import LOADER_PHASES
from headrace.studies.actorq.training import PRECISIONS, TASKS
from headrace.studies.comparisons import Comparison, at_least, at_most
from headrace.studies.curves import WINDOW, Curve, curve_of, places
from headrace.studies.sheet import Row, Rows, read_published
from headrace.studies.statistics import chosen, grouped, known, mean, median, middle
from headrace.studies.training import ACTOR_PHASES

__all__ = [
    "Reached", "all_parameters_share", "breakdown", "coarseness", "compare", "compare_simulated", "curves_of",
    "evaluation_period", "final_scores", "matched", "parameters_share", "reached", "tasks_of",
]  # fmt: skip

_THROUGHPUT_RATIO = 2.5
_PARAMETER_PERCENT = 5.0
_REFRESH_MS = 150.0
_WITHIN_PERCENT = 5.0
_OFTEN = 30
_COARSE_PERIODS = 10
"""A time to reward of fewer evaluations than this is coarse: it mainly shows which evaluation it was."""
_IN_THREAD = "the published actor fetches, deserializes and loads in the acting thread itself"


class Reached(NamedTuple):
    """Times of the runs of a task and precision to their target; medians over all seeds, nan if one missed it."""

    seeds: int
    seconds_each: list[float]
    seconds: float
    steps: float

    @property
    def share(self) -> float:
        """The share of the runs that reached the target."""
        return len(self.seconds_each) / self.seeds

    def __str__(self) -> str:
        return f"{len(self.seconds_each)} of {self.seeds} seeds"


def compare(throughput: Rows, breakdowns: Rows, training: Rows, curves: Rows) -> list[Comparison]:
    """Every measured figure with a published or a required counterpart."""
    return [
        *_throughput(throughput),
        *_parameters(breakdowns),
        *_time_to_reward(training, curves),
        *_scores(training, curves),
    ]


def compare_simulated(runs: Rows, curves: Rows) -> Iterator[Comparison]:
    """Times to reward in simulated time, with the costs of each source."""
    for source, these in grouped(runs, "costs"):
        yield from _time_to_reward(these, chosen(curves, costs=source), f", simulated, costs as {source}")


def breakdown() -> dict[tuple[int, str], Row]:
    """The published breakdowns of an actor's time, in seconds, by pull period (steps) and precision."""
    rows = read_published("actorq", "published/breakdown.csv")
    return {(row["pull_period_steps"], row["precision"]): row for row in rows}


def parameters_share(published: Row) -> float:
    """The share of an actor's time in a published breakdown that is spent on parameters."""
    spent = published["pull_seconds"] + published["deserialize_seconds"] + published["load_seconds"]
    return float(spent / published["total_seconds"])


def tasks_of(training: Rows) -> list[str]:
    """The trained tasks in the table's order."""
    there = {row["task"] for row in training}
    return [task for task in TASKS if task in there]


def reached(training: Rows, task: str, precision: str) -> Reached:
    """Seconds and steps to the target, by task and precision."""
    runs = chosen(training, task=task, precision=precision)
    times, steps = known(runs, "seconds_to_reward"), known(runs, "steps_to_reward")
    all_did = bool(runs) and len(times) == len(runs)
    return Reached(len(runs), times, median(times) if all_did else nan, median(steps) if all_did else nan)


def curves_of(curves: Rows, task: str, precision: str) -> list[Curve]:
    """The curves of a task and precision, one for each seed."""
    return [curve_of(run) for _, run in sorted(grouped(chosen(curves, task=task, precision=precision), "seed"))]


def matched(curves: Rows, task: str) -> tuple[float, dict[str, float]]:
    """The last number of steps at which all runs of a task have a score, and each precision's mean score there.

    A score is the mean over the last quarter of one grid of steps for all runs, at most WINDOW places; nan if there is
    no grid.
    """
    found = {precision: curves_of(curves, task, precision) for precision in PRECISIONS}
    every = [curve for each in found.values() for curve in each]
    end = min((float(curve.steps[-1]) for curve in every), default=nan)
    grid = places(every, "steps")
    grid = grid[grid <= end]
    if not len(grid):
        return end, dict.fromkeys(PRECISIONS, nan)
    grid = grid[-min(WINDOW, max(1, len(grid) // 4)) :]
    scores = {
        name: [float(np.interp(grid, curve.steps, curve.score).mean()) for curve in each]
        for name, each in found.items()
    }
    return end, {name: mean(each) for name, each in scores.items()}


def final_scores(training: Rows, task: str, precision: str) -> list[float]:
    """The final scores of the seeds that have one."""
    return known(chosen(training, task=task, precision=precision), "final_return")


def evaluation_period(curves: Rows, task: str) -> float:
    """Median seconds of training between two evaluations of a task's runs; nan if no run has two."""
    runs = [curve for precision in PRECISIONS for curve in curves_of(curves, task, precision)]
    return median([gap for curve in runs for gap in np.diff(curve.seconds).tolist()])


def coarseness(curves: Rows, task: str, *seconds: float) -> str:
    """A note for a ratio of times to reward that are only a few evaluations long; otherwise empty."""
    period = evaluation_period(curves, task)
    if any(isnan(each) for each in seconds) or not min(seconds) < _COARSE_PERIODS * period:
        return ""
    return f"coarse: a time is less than {_COARSE_PERIODS} evaluations long, which are {period:.3g} s apart"


def all_parameters_share(row: Row) -> float:
    """Seconds that the acting and the refresh thread spend on parameters, divided by the acting thread's seconds."""
    acted = sum(row[f"{phase}_s_per_1000"] for phase in ACTOR_PHASES)
    loading = sum(row[f"beside_{phase}_s_per_1000"] for phase in LOADER_PHASES)
    return float((row["pull_s_per_1000"] + row["load_s_per_1000"] + loading) / acted)


def _throughput(rows: Rows) -> Iterator[Comparison]:
    for (task, actors), these in grouped(rows, "task", "actors"):
        rates: dict[str, float] = {
            each: middle(chosen(these, precision=each), "steps_per_second") for each in PRECISIONS
        }
        where = f"{task}, {counted(actors, 'actor')}"
        for precision, least in (("int8", _THROUGHPUT_RATIO), ("fp16", None)):
            ratio = rates[precision] / rates["fp32"]
            if not isnan(ratio):
                yield at_least(f"environment steps/s, {precision} / fp32", where, ratio, least)


def _parameters(rows: Rows) -> Iterator[Comparison]:
    published = breakdown()
    for (period, precision), these in grouped(rows, "pull_period", "precision"):
        where = f"{precision}, pull period {period}"
        required = precision == "int8" and period == _OFTEN
        said = published.get((period, precision))
        theirs = f"{100 * parameters_share(said):.0f}" if said else ""
        acting, most = 100 * middle(these, "parameter_share"), _PARAMETER_PERCENT if required else None
        yield at_most("acting thread's time on parameters (%)", where, acting, most, theirs, note=_IN_THREAD)
        both = 100 * median(all_parameters_share(row) for row in these)
        yield Comparison("time on parameters of both threads (%)", where, both, theirs)
        refresh = middle(these, "refresh_ms")
        if not isnan(refresh):
            yield at_most("publish to installed (ms)", where, refresh, _REFRESH_MS if required else None)


def _time_to_reward(rows: Rows, curves: Rows, how: str = "") -> Iterator[Comparison]:
    """int8 is compared with the published ratio; none was published for fp16. `how` is part of the figure's name."""
    for task in tasks_of(rows):
        full = reached(rows, task, "fp32")
        for precision in ("int8", "fp16"):
            quantized = reached(rows, task, precision)
            if not (full.seeds and quantized.seeds):
                continue
            said = TASKS[task]["int8_speedup"] if precision == "int8" else None
            figure, ratio = f"time to reward, fp32 / {precision}{how}", full.seconds / quantized.seconds
            theirs = "" if said is None else f"{said:g}"
            if isnan(ratio):
                note = f"the target was reached by fp32 in {full}, by {precision} in {quantized}"
                verdict = "MISSED" if quantized.share < full.share else "undecided"
                asked, verdict = ("", "") if said is None else (f">= {said:g}", verdict)
                yield Comparison(figure, task, None, theirs, asked, verdict, note)
            else:
                note = coarseness(curves, task, full.seconds, quantized.seconds)
                yield at_least(figure, task, ratio, said, theirs, note=note)


def _scores(training: Rows, curves: Rows) -> Iterator[Comparison]:
    """The difference of int8 from fp32 in percent of |fp32|: final scores, and scores at matched steps."""
    for task in tasks_of(training):
        full, quantized = (final_scores(training, task, precision) for precision in ("fp32", "int8"))
        if full and quantized:
            where = f"{task}, final episodes of {len(full)} and {len(quantized)} seeds"
            yield _change("score, int8 against fp32 (%)", where, mean(full), mean(quantized), asked=True)
        steps, score = matched(curves, task)
        if not isnan(score["fp32"]) and not isnan(score["int8"]):
            where = f"{task}, after {steps:,.0f} steps"
            figure = "score at matched steps, int8 against fp32 (%)"
            yield _change(figure, where, score["fp32"], score["int8"], asked=False)


def _change(figure: str, where: str, full: float, quantized: float, *, asked: bool) -> Comparison:
    """The difference in percent of |full|; if `full` is 0, the requirement is that `quantized` is no lower."""
    if full:
        return at_least(figure, where, 100 * (quantized - full) / abs(full), -_WITHIN_PERCENT if asked else None)
    note = f"fp32's score is 0, of which there is no percentage; int8's is {quantized:.3g}"
    return at_least(figure, where, quantized, 0.0 if asked else None, note=note)._replace(ours=None)
