"""What the rows say beside what was published and beside what is required."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple

from headrace.studies.actorq.curves import Curve, value_at
from headrace.studies.actorq.tasks import TASKS, breakdown, published_time
from headrace.studies.actorq.training import curve_of
from headrace.studies.statistics import mean, median

__all__ = ["Comparison", "Reached", "Rows", "compare", "curves_of", "matched", "reached", "tasks_of"]

Rows = Sequence[Mapping[str, Any]]
"""Rows of a sheet."""

_THROUGHPUT_RATIO = 2.5
_PARAMETER_PERCENT = 5.0
_REFRESH_MS = 150.0
_WITHIN_PERCENT = 5.0
_OFTEN = 30


class Comparison(NamedTuple):
    """One figure of ours; `published` and `required` are empty where there is none."""

    figure: str
    where: str
    ours: float | None
    published: str
    required: str
    verdict: str
    note: str = ""


class Reached(NamedTuple):
    """How the runs of a task and precision came to their target; medians are of all seeds, nan where one did not."""

    seeds: int
    seconds_each: list[float]
    seconds: float
    steps: float

    def __str__(self) -> str:
        return f"{len(self.seconds_each)} of {self.seeds} seeds"


def compare(throughput: Rows, breakdowns: Rows, training: Rows, curves: Rows) -> list[Comparison]:
    """Every figure that was published or is required, as far as it was measured."""
    return [
        *_throughput(throughput),
        *_parameters(breakdowns),
        *_time_to_reward(training),
        *_scores(training, curves),
    ]


def tasks_of(training: Rows) -> list[str]:
    """The tasks that were trained, in the table's order."""
    there = {row["task"] for row in training}
    return [task for task in TASKS if task in there]


def reached(training: Rows, task: str, precision: str) -> Reached:
    """Seconds and steps to the target."""
    runs = [row for row in training if (row["task"], row["precision"]) == (task, precision)]
    times = [row["seconds_to_reward"] for row in runs if row["seconds_to_reward"] is not None]
    steps = [row["steps_to_reward"] for row in runs if row["steps_to_reward"] is not None]
    all_did = bool(runs) and len(times) == len(runs)
    return Reached(len(runs), times, median(times) if all_did else nan, median(steps) if all_did else nan)


def curves_of(curves: Rows, task: str, precision: str) -> list[Curve]:
    """The curves of a task and precision, one for each seed."""
    rows = [row for row in curves if (row["task"], row["precision"]) == (task, precision)]
    seeds = sorted({row["seed"] for row in rows})
    return [curve_of([row for row in rows if row["seed"] == seed]) for seed in seeds]


def matched(curves: Rows, task: str, precisions: Iterable[str]) -> tuple[float, dict[str, float]]:
    """The most environment steps that all runs have made, and each precision's mean score there; nan of none."""
    found = {precision: curves_of(curves, task, precision) for precision in precisions}
    ends = [float(curve.steps[-1]) for each in found.values() for curve in each]
    steps = min(ends, default=nan)
    return steps, {name: mean([value_at(curve, steps) for curve in each]) for name, each in found.items()}


def _throughput(rows: Rows) -> list[Comparison]:
    comparisons = []
    for task, actors in dict.fromkeys((row["task"], row["actors"]) for row in rows):
        rates = {
            precision: median([
                row["steps_per_second"]
                for row in rows
                if (row["task"], row["actors"], row["precision"]) == (task, actors, precision)
            ])
            for precision in ("fp32", "fp16", "int8")
        }  # fmt: skip
        where = f"{task}, {actors} actor{'s' if actors > 1 else ''}"
        for precision in ("int8", "fp16"):
            ratio = rates[precision] / rates["fp32"]
            if isnan(ratio):
                continue
            least = _THROUGHPUT_RATIO if precision == "int8" else None
            comparisons.append(_at_least(f"environment steps/s, {precision} / fp32", where, ratio, "", least))
    return comparisons


def _parameters(rows: Rows) -> list[Comparison]:
    comparisons = []
    published = breakdown()
    for period, precision in dict.fromkeys((row["pull_period"], row["precision"]) for row in rows):
        these = [row for row in rows if (row["pull_period"], row["precision"]) == (period, precision)]
        where = f"{precision}, pull period {period}"
        required = precision == "int8" and period == _OFTEN
        percent = 100 * median([row["parameter_share"] for row in these])
        said = published.get((period, precision))
        comparisons.append(
            _at_most("actor's time on parameters (%)", where, percent,
                     f"{100 * said.parameter_share:.0f}" if said else "", _PARAMETER_PERCENT if required else None)
        )  # fmt: skip
        refresh = median([row["refresh_ms"] for row in these])
        if not isnan(refresh):
            most = _REFRESH_MS if precision == "int8" else None
            comparisons.append(_at_most("publish to installed (ms)", where, refresh, "", most))
    return comparisons


def _time_to_reward(rows: Rows) -> list[Comparison]:
    comparisons = []
    for task in tasks_of(rows):
        full, quantized = (reached(rows, task, precision) for precision in ("fp32", "int8"))
        if not (full.seeds and quantized.seeds):
            continue
        said = published_time(TASKS[task]).speedup
        ratio = full.seconds / quantized.seconds
        figure = "time to reward, fp32 / int8"
        if isnan(ratio):
            note = f"the target was reached by fp32 in {full}, by int8 in {quantized}"
            comparisons.append(Comparison(figure, task, None, f"{said:g}", f">= {said:g}", "MISSED", note))
        else:
            comparisons.append(_at_least(figure, task, ratio, f"{said:g}", said))
    return comparisons


def _scores(training: Rows, curves: Rows) -> list[Comparison]:
    """int8 against fp32 at matched steps: by how many per cent of |fp32| it is above."""
    comparisons = []
    for task in tasks_of(training):
        steps, score = matched(curves, task, ("fp32", "int8"))
        change = 100 * (score["int8"] - score["fp32"]) / abs(score["fp32"]) if score["fp32"] else nan
        if not isnan(change):
            where = f"{task}, after {steps:,.0f} steps"
            comparisons.append(_at_least("score, int8 against fp32 (%)", where, change, "", -_WITHIN_PERCENT))
    return comparisons


def _at_least(figure: str, where: str, ours: float, published: str, least: float | None) -> Comparison:
    verdict = "" if least is None else "holds" if ours >= least else "MISSED"
    return Comparison(figure, where, ours, published, "" if least is None else f">= {least:g}", verdict)


def _at_most(figure: str, where: str, ours: float, published: str, most: float | None) -> Comparison:
    verdict = "" if most is None else "holds" if ours <= most else "MISSED"
    return Comparison(figure, where, ours, published, "" if most is None else f"<= {most:g}", verdict)
