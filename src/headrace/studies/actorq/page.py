"""The page of the study: what was published beside what was measured here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.report.document import document, plot_row, share_bar
from headrace.studies.actorq.comparisons import Comparison, Rows, curves_of, tasks_of
from headrace.studies.actorq.limits import limits
from headrace.studies.actorq.plan import Plan
from headrace.studies.actorq.side_by_side import (
    breakdown_tables,
    misses,
    settings_table,
    throughput_table,
    tiles,
    time_table,
)
from headrace.studies.actorq.tasks import TASKS, published_time
from headrace.studies.actorq.training import FINAL_EPISODES
from headrace.studies.curves import WINDOW, bands
from headrace.studies.page import figure_text, lead_of, note_list, table
from headrace.studies.plots import Line, Strip, draw_heat, draw_lines, draw_strips
from headrace.studies.results import Origin, write_text
from headrace.studies.statistics import mean, median

if TYPE_CHECKING:
    from headrace.studies.actorq.study import Sheets

__all__ = ["INTEGER_WIDTH", "write_page"]

_COLOURS = {"fp32": "c7", "fp16": "c2", "int8": "c1"}
INTEGER_WIDTH = 64
"""Of graph_layers.integer_layer()."""
_PARTS = (
    ("environment", "c1"), ("inference", "c2"), ("pull", "c3"), ("load", "c4"), ("push", "c5"), ("other", "c6"),
)  # fmt: skip


def write_page(
    path: Path,
    plan: Plan,
    sheets: "Sheets",
    comparisons: Sequence[Comparison],
    notes: Sequence[str],
    origin: Origin,
) -> None:
    """Writes the page of a plan's rows; raises StorageError where `path` can't be written."""
    throughput, breakdowns, crossover, pull_periods, training = (
        getattr(sheets, part).of(case.name for case in getattr(plan, part))
        for part in ("throughput", "breakdown", "crossover", "pull_periods", "training")
    )
    curves = sheets.curves.of(case.name for case in plan.training)
    sections = (
        ("Left out", note_list(notes)),
        ("What this machine can't show", note_list(limits(plan.training, training))),
        ("Short of what was asked or published", note_list(misses(comparisons))),
        ("Time to reward, published and here", time_table(training, curves)),
        ("Learning curves", _curves(training, curves)),
        ("Actors' throughput at the published size", throughput_table(throughput)),
        ("Where an actor's time goes", _breakdown(breakdowns)),
        ("Pull period", _pull_periods(pull_periods)),
        ("Where int8 begins to win", _crossover(crossover)),
        ("Energy", _energy(throughput)),
        ("Settings, published and here", settings_table(plan.training)),
        ("How it was measured", _method(plan, _commits([*throughput, *breakdowns, *crossover, *training]))),
    )
    write_text(path, document("Quantized actors", lead_of(origin), tiles(comparisons), sections))


def _curves(training: Rows, curves: Rows) -> str:
    """Two plots for each task: over environment steps, and over training time."""
    plots = []
    for task in tasks_of(training):
        target = next(row["target"] for row in training if row["task"] == task)
        said = published_time(TASKS[task]).reward
        levels = {"published": said} if said == target else {"published": said, "target": target}
        for axis, label in (("steps", "environment steps"), ("seconds", "training time (s)")):
            found = bands({precision: curves_of(curves, task, precision) for precision in _COLOURS}, axis)
            strips = {precision: Strip(*each, _COLOURS[precision]) for precision, each in found.items()}
            if strips:
                plots.append(draw_strips(f"{task}-{axis}", f"{task}: {label}", "score", strips, levels=levels))
    intro = (
        f'<p class="soft">Running mean over {WINDOW} places of a grid that all runs of a plot have in common, as far '
        "apart as the evaluations of the run that has them farthest apart; mean and standard deviation over seeds.</p>"
    )
    return intro + plot_row(plots) if plots else ""


def _breakdown(rows: Rows) -> str:
    """The acting thread's bars, then the tables."""
    bars = []
    for period, precision in dict.fromkeys((row["pull_period"], row["precision"]) for row in rows):
        these = [row for row in rows if (row["pull_period"], row["precision"]) == (period, precision)]
        seconds = {part: median([row[f"{part}_s_per_1000"] for row in these]) for part, _ in _PARTS}
        shares = [(part, colour, seconds[part] / sum(seconds.values())) for part, colour in _PARTS]
        bars.append(f"<figure><h3>{precision}, pull period {period}</h3>{share_bar(shares)}</figure>")
    note = (
        '<p class="soft">Ours deserializes and loads in a thread beside the one that acts; what that thread takes from '
        "the actor shows in its steps. Load, here, is the exchange of one session for the other. The published actor "
        "does all of it in its one thread: its share stands beside ours of the acting thread, and of both threads.</p>"
    )
    return f'{note}<div class="plots">{"".join(bars)}</div>{breakdown_tables(rows)}' if rows else ""


def _pull_periods(rows: Rows) -> str:
    """Final score over the pull period."""
    periods = sorted({row["pull_period"] for row in rows})
    of = {period: [row for row in rows if row["pull_period"] == period] for period in periods}
    scores = [
        mean([row["final_return"] for row in of[period] if row["final_return"] is not None]) for period in periods
    ]
    lines = [
        (f"{period:g}", figure_text(score), figure_text(median([row["staleness"] for row in of[period]])),
         figure_text(median([row["environment_steps"] for row in of[period]])), str(len(of[period])))
        for period, score in zip(periods, scores, strict=True)
    ]  # fmt: skip
    header = ("pull period (steps)", "final score", "staleness (versions)", "environment steps", "seeds")
    if not lines:
        return ""
    task = rows[0]["task"]
    label = f"{task}, int8: pull period (environment steps)"
    staleness = [median([row["staleness"] for row in of[period]]) for period in periods]
    plots = (
        draw_lines("pull-periods", label, "final score", periods, {"int8": Line(scores, "c1")}),
        draw_lines("pull-staleness", label, "staleness (versions)", periods, {"int8": Line(staleness, "c1")}),
    )
    return plot_row(plots) + table(header, lines, f"{task}, int8")


def _crossover(rows: Rows) -> str:
    """The heat map, from which batch on int8 loses at each width, and all times."""
    if not rows:
        return ""
    widths, batches = sorted({row["width"] for row in rows}), sorted({row["batch"] for row in rows})
    ratios = {precision: np.full((len(batches), len(widths)), np.nan) for precision in ("int8", "fp16")}
    for row in rows:
        for precision, cells in ratios.items():
            cells[batches.index(row["batch"]), widths.index(row["width"])] = row[f"{precision}_speedup"]
    lines = [
        (f"{row['width']}, batch {row['batch']}", *(figure_text(row[f"{precision}_us"]) for precision in _COLOURS),
         figure_text(row["int8_speedup"]), figure_text(row["fp16_speedup"]))
        for row in rows
    ]  # fmt: skip
    begins = []
    for column, width in enumerate(widths):
        wins = [f"{batch}" for batch, ratio in zip(batches, ratios["int8"][:, column], strict=True) if ratio > 1]
        begins.append(f"width {width}: " + (f"int8 wins at batch {', '.join(wins)}" if wins else "int8 never wins"))
    heats = [
        draw_heat(f"crossover-{precision}", f"{precision}: width of 3 layers", "batch", widths, batches, cells)
        for precision, cells in ratios.items()
    ]
    header = ("", "fp32 (µs)", "fp16 (µs)", "int8 (µs)", "fp32 / int8", "fp32 / fp16")
    caption = "Inference on one core"
    note = (
        '<p class="soft">Time of fp32 over that of int8, and of fp16: above 1 fp32 loses. In an int8 policy, layers of '
        f"fewer than {INTEGER_WIDTH} inputs or outputs stay in fp32, such as the head here, and so does the first "
        "where it reads observations other than images, as here: 2 of the 3 layers are in int8.</p>"
    )
    return note + plot_row(heats) + note_list(begins) + table(header, lines, caption)


def _energy(rows: Rows) -> str:
    known = [row for row in rows if row["joules_per_1000"] is not None]
    if not known:
        return "<p>Not available on this machine; why stands under “Left out”.</p>"
    lines = [
        (f"{task}, {actors} actors, {precision}",
         figure_text(median([row["joules_per_1000"] for row in known
                             if (row["task"], row["actors"], row["precision"]) == (task, actors, precision)])))
        for task, actors, precision in dict.fromkeys((row["task"], row["actors"], row["precision"]) for row in known)
    ]  # fmt: skip
    caption = "Of the processor's packages as a whole, whatever else ran on them"
    return table(("", "joules per 1,000 environment steps"), lines, caption)


def _method(plan: Plan, commits: Sequence[str]) -> str:
    parts = [
        f"Scale {plan.scale}. Every run is one of headrace.train: learner, "
        "actors, quantizer and evaluator are processes of their own; the actors of a run in fp32 take the learner's "
        "policy as it is. Time to reward is the training time of the first evaluation at or above the target whose "
        "successor is, too. Evaluations are of the learner's policy in full precision, and off the clock: training "
        "stands still meanwhile, or the evaluator has a core of its own. The final score is the mean of "
        f"{FINAL_EPISODES} greedy episodes. Each figure is defined in README.md of headrace/studies/actorq."
    ]
    if len(commits) > 1:
        parts.append(f"Measured with several commits, each row has its own: {', '.join(commits)}.")
    return "".join(f"<p>{escape(part)}</p>" for part in parts)


def _commits(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["commit"] for row in rows))
