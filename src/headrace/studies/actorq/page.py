"""The page of the study: published and measured figures side by side."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from headrace.report.document import plot_row, share_bar
from headrace.report.formats import counted
from headrace.studies.actorq.comparisons import (
    PRECISIONS,
    all_parameters_share,
    coarseness,
    curves_of,
    evaluation_period,
    final_scores,
    matched,
    reached,
    tasks_of,
)
from headrace.studies.actorq.settings import limits, settings_table
from headrace.studies.actorq.tasks import TASKS, breakdown, published_time, reference
from headrace.studies.base import Page, Results
from headrace.studies.comparisons import Comparison
from headrace.studies.curves import WINDOW
from headrace.studies.page import (
    bars,
    cells,
    figure_text,
    misses,
    note,
    note_list,
    range_text,
    summary_table,
    table,
    worst_tiles,
)
from headrace.studies.plots import Line, draw_curves, draw_heat, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, known, mean, median, middle
from headrace.studies.training import FINAL_EPISODES

__all__ = ["INTEGER_WIDTH", "present", "tiles"]

_COLORS = {"fp32": "c7", "fp16": "c2", "int8": "c1"}
INTEGER_WIDTH = 64
"""The least width that graph_layers.integer_layer() computes in integers."""
_PARTS = (
    ("environment", "c1"), ("inference", "c2"), ("pull", "c3"), ("load", "c4"), ("push", "c5"), ("other", "c6"),
)  # fmt: skip


def present(results: Results) -> Page:
    """The page of these rows."""
    throughput, breakdowns, crossover, pull_periods, training, curves = (
        results.rows[part] for part in ("throughput", "breakdown", "crossover", "pull_periods", "training", "curves")
    )
    cases = results.plan["training"]
    times = _time_table(training, curves) + _scores_table(training, curves) + _rates_table(training)
    sections = (
        ("What this machine can't show", note_list(limits(cases, training))),
        ("Short of what was asked or published", misses(results.comparisons)),
        ("Time to reward, published and here", times),
        ("Learning curves", _curves(training, curves)),
        ("Actors' throughput at the published size", _throughput_table(throughput)),
        ("Where an actor's time goes", _breakdown(breakdowns)),
        ("Pull period", _pull_periods(pull_periods)),
        ("Where int8 begins to win", _crossover(crossover)),
        ("Energy", _energy(throughput)),
        ("Settings, published and here", settings_table(cases)),
    )
    method = (
        f"Scale {results.scale}. In runs of headrace.train, learner, actors, quantizer and evaluator are separate "
        "processes; actors in fp32 load the learner's policy directly. Time to reward is the training time of the "
        "first evaluation at or above the target whose successor also is. Evaluations use the policy in full "
        f"precision; they pause training or have a separate core. The final score is the mean of {FINAL_EPISODES} "
        "greedy episodes. README.md of headrace/studies/actorq defines each figure."
    )
    return Page("Quantized actors", tiles(results.comparisons), sections, [method])


def tiles(comparisons: Sequence[Comparison]) -> str:
    """The required and published figures, each with its worst value."""
    return worst_tiles(comparisons, (
        ("time to reward, fp32 / int8", "time to reward, fp32 over int8", figure_text),
        ("environment steps/s, int8 / fp32", "environment steps/s at 3 × 2048, int8 over fp32", figure_text),
        ("acting thread's time on parameters (%)", "% of an int8 acting thread's time on parameters at 3 × 2048",
         figure_text),
        ("publish to installed (ms)", "ms from publish to installed, int8, 8.4 M parameters", figure_text),
        ("score, int8 against fp32 (%)", "% by which int8's final score is above fp32's", figure_text),
    ))  # fmt: skip


def _time_table(training: Rows, curves: Rows) -> str:
    """The published table next to our medians over seeds."""
    header = (
        "", "published reward", "published fp32, int8 (s)", "published speed-up", "our target", "ours, fp32 (s)",
        "fp16 (s)", "int8 (s)", "our speed-up, int8", "fp16", "evaluated every (s)", "steps to it: fp32, fp16, int8",
        "others",
    )  # fmt: skip
    lines = []
    for name in tasks_of(training):
        task, said = TASKS[name], published_time(TASKS[name])
        ours = {precision: reached(training, name, precision) for precision in PRECISIONS}
        full, half, quantized = (ours[precision].seconds for precision in PRECISIONS)
        lines.append((
            task.published,
            f"{said.reward:g}",
            f"{said.fp32_seconds:g}, {said.int8_seconds:g}",
            f"{said.speedup:g}",
            figure_text(chosen(training, task=name)[0]["target"]),
            *(
                figure_text(each.seconds) + (f" (reached by {each})" if len(each.seconds_each) < each.seeds else "")
                for each in ours.values()
            ),
            _speedup(curves, name, full, quantized),
            _speedup(curves, name, full, half),
            figure_text(evaluation_period(curves, name)),
            ", ".join(figure_text(each.steps) for each in ours.values()),
            reference(task),
        ))  # fmt: skip
    return table(header, lines)


def _speedup(curves: Rows, task: str, full: float, other: float) -> str:
    """A ratio of times to reward, marked if the times are only a few evaluations long."""
    return figure_text(full / other) + (" (coarse)" if coarseness(curves, task, full, other) else "")


def _scores_table(training: Rows, curves: Rows) -> str:
    lines = []
    for task in tasks_of(training):
        steps, score = matched(curves, task)
        final = (range_text(final_scores(training, task, precision), mean) for precision in PRECISIONS)
        lines.append((task, *final, figure_text(steps), *(figure_text(score[precision]) for precision in PRECISIONS)))
    header = ("", *(f"final, {precision}" for precision in PRECISIONS), "matched steps", *PRECISIONS)
    caption = (
        f"Scores: mean of {FINAL_EPISODES} greedy episodes after the same steps for all, its mean over seeds (least to "
        f"most); then the running mean over {WINDOW} places of one grid of steps, at the most steps that all have "
        "made, its mean over seeds"
    )
    return table(header, lines, caption)


def _rates_table(training: Rows) -> str:
    """How actors and learner spend their time."""
    groups = [
        (f"{task}, {precision}, {these[0]['hidden']}", these)
        for task, precision in product(tasks_of(training), PRECISIONS)
        if (these := chosen(training, task=task, precision=precision))
    ]
    columns = {
        "steps/s": "steps_per_second", "actors: inference": "actor_inference:.0%",
        "environment": "actor_environment:.0%", "push (waits for learner)": "actor_push:.0%",
        "learner: train": "learner_train:.0%", "wait": "learner_wait:.0%",
    }  # fmt: skip
    return summary_table(groups, columns, "Who waits for whom")


def _curves(training: Rows, curves: Rows) -> str:
    plots: list[str] = []
    for task in tasks_of(training):
        target, said = chosen(training, task=task)[0]["target"], published_time(TASKS[task]).reward
        levels = {"published": said} if said == target else {"published": said, "target": target}
        groups = {precision: curves_of(curves, task, precision) for precision in _COLORS}
        plots += draw_curves(task, task, groups, _COLORS.values(), levels)
    intro = note(
        f"Running mean over {WINDOW} places of a grid that all runs of a plot have in common; mean and standard "
        "deviation over seeds."
    )
    return intro + plot_row(plots) if plots else ""


def _throughput_table(rows: Rows) -> str:
    """Environment steps per second at the published size."""
    lines = []
    for (task, actors), these in grouped(rows, "task", "actors"):
        groups = [chosen(these, precision=precision) for precision in PRECISIONS]
        full, half, quantized = (middle(group, "steps_per_second") for group in groups)
        lines.append((
            f"{task}, {counted(actors, 'actor')}",
            *(range_text(known(group, "steps_per_second")) for group in groups),
            figure_text(quantized / full),
            figure_text(half / full),
            ", ".join(figure_text(middle(group, "inference_s_per_1000")) for group in groups),
        ))  # fmt: skip
    header = ("", "fp32", "fp16", "int8", "int8 / fp32", "fp16 / fp32", "inference alone: fp32, fp16, int8 (ms)")
    return table(header, lines, "Environment steps per second of all actors, median (least to most)")


def _breakdown(rows: Rows) -> str:
    """The acting thread's bars, then the tables."""
    shown = []
    for (period, precision), these in grouped(rows, "pull_period", "precision"):
        seconds = {part: middle(these, f"{part}_s_per_1000") for part, _ in _PARTS}
        shares = [(part, color, seconds[part] / sum(seconds.values())) for part, color in _PARTS]
        shown.append((f"{precision}, pull period {period}", share_bar(shares)))
    about = note(
        "The published actor has one thread; its share is compared with ours of the acting thread and of both threads. "
        "Our second thread deserializes and loads, which may slow the steps; load here is the exchange of sessions."
    )
    return about + bars(shown) + _breakdown_tables(rows) if rows else ""


def _breakdown_tables(rows: Rows) -> str:
    """Where an actor's time goes, published above ours, for each pull period."""
    published = breakdown()
    tables = []
    header = ("", "step", "pull", "deserialize", "load", "total", "on parameters", "of both threads",
              "second thread: fetch, deserialize, load")  # fmt: skip
    for period in sorted(distinct(rows, "pull_period")):
        lines = []
        for precision in PRECISIONS:
            these = chosen(rows, pull_period=period, precision=precision)
            said = published.get((period, precision))
            if said:
                seconds = [f"{value:g} s" for value in said]
                lines.append((f"published {precision}", *seconds, f"{said.parameter_share:.0%}", "–", "–"))
            if these:
                lines.append((f"ours {precision}", *_parts(these)))
        caption = f"Pull period {period} steps; published in seconds of a whole measurement, ours of 1,000 steps"
        tables.append(table(header, lines, caption))
    return "".join(tables)


def _parts(rows: Rows) -> tuple[str, ...]:
    """The cells of one of our breakdowns: the acting thread's, then the second thread's."""
    part = {name: middle(rows, f"{name}_s_per_1000") for name, _ in _PARTS}
    loading = cells(rows, *(f"beside_{name}_s_per_1000" for name in ("fetch", "deserialize", "load")))
    return (
        figure_text(sum(part.values()) - part["pull"] - part["load"]),
        figure_text(part["pull"]),
        "–",  # second thread
        figure_text(part["load"]),
        figure_text(sum(part.values())),
        f"{middle(rows, 'parameter_share'):.1%}",
        f"{median(all_parameters_share(row) for row in rows):.1%}",
        ", ".join(loading),
    )


def _pull_periods(rows: Rows) -> str:
    """Final score over the pull period."""
    if not rows:
        return ""
    periods = sorted(distinct(rows, "pull_period"))
    groups = [chosen(rows, pull_period=period) for period in periods]
    scores = [mean(known(group, "final_return")) for group in groups]
    staleness = [middle(group, "staleness") for group in groups]
    lines = [
        (f"{period:g}", figure_text(score), *cells(group, "staleness", "environment_steps"), str(len(group)))
        for period, score, group in zip(periods, scores, groups, strict=True)
    ]
    header = ("pull period (steps)", "final score", "staleness (versions)", "environment steps", "seeds")
    title = f"{rows[0]['task']}, int8"
    plots = (
        draw_lines(name, f"{title}: pull period (environment steps)", label, periods, {"int8": Line(values, "c1")})
        for name, label, values in (
            ("pull-periods", "final score", scores), ("pull-staleness", "staleness (versions)", staleness)
        )
    )  # fmt: skip
    return plot_row(plots) + table(header, lines, title)


def _crossover(rows: Rows) -> str:
    """The heat map, the batch sizes at which int8 wins for each width, and all times."""
    if not rows:
        return ""
    widths, batches = sorted(distinct(rows, "width")), sorted(distinct(rows, "batch"))
    ratios = {precision: np.full((len(batches), len(widths)), np.nan) for precision in ("int8", "fp16")}
    for row in rows:
        for precision, values in ratios.items():
            values[batches.index(row["batch"]), widths.index(row["width"])] = row[f"{precision}_speedup"]
    columns = (*(f"{precision}_us" for precision in _COLORS), "int8_speedup", "fp16_speedup")
    lines = [
        (f"{row['width']}, batch {row['batch']}", *(figure_text(row[column]) for column in columns)) for row in rows
    ]
    begins = []
    for column, width in enumerate(widths):
        wins = [f"{batch}" for batch, ratio in zip(batches, ratios["int8"][:, column], strict=True) if ratio > 1]
        begins.append(f"width {width}: " + (f"int8 wins at batch {', '.join(wins)}" if wins else "int8 never wins"))
    heats = [
        draw_heat(f"crossover-{precision}", f"{precision}: width of 3 layers", "batch", widths, batches, values)
        for precision, values in ratios.items()
    ]
    header = ("", "fp32 (µs)", "fp16 (µs)", "int8 (µs)", "fp32 / int8", "fp32 / fp16")
    about = note(
        "Time of fp32 over that of int8 or fp16: above 1 fp32 is slower. Two of the three layers of an int8 policy "
        f"are in int8: layers with fewer than {INTEGER_WIDTH} inputs or outputs stay in fp32, and so does a first "
        "layer that reads observations other than images."
    )
    return about + plot_row(heats) + note_list(begins) + table(header, lines, "Inference on one core")


def _energy(rows: Rows) -> str:
    there = [row for row in rows if row["joules_per_1000"] is not None]
    if not there:
        return "<p>Not available on this machine; see “Left out” for the reason.</p>"
    groups = [
        (f"{task}, {actors} actors, {precision}", these)
        for (task, actors, precision), these in grouped(there, "task", "actors", "precision")
    ]
    caption = "Of the processor's packages as a whole, including all other processes"
    return summary_table(groups, {"joules per 1,000 environment steps": "joules_per_1000"}, caption)
