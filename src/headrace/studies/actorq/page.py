"""The tables and plots of the study: published and measured figures side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.fields import write_fields
from headrace.report.document import plot_row, share_bar
from headrace.report.formats import counted
from headrace.studies import page
from headrace.studies.actorq import comparisons
from headrace.studies.actorq.acting import LOADER_PHASES, PUBLICATIONS_PER_SECOND
from headrace.studies.actorq.training import PRECISIONS, PUBLISHED_HIDDEN, TASKS, TrainingCase, reference
from headrace.studies.base import Results
from headrace.studies.plots import Line, draw_curves, draw_heat, draw_lines
from headrace.studies.sheet import Row, Rows, read_published
from headrace.studies.statistics import chosen, distinct, grouped, known, mean, median, middle
from headrace.studies.training import ACTOR_PHASES

__all__ = ["INTEGER_WIDTH", "TILES", "blocks", "limits", "settings_table"]

_COLORS = {"fp32": "c7", "fp16": "c2", "int8": "c1"}
INTEGER_WIDTH = 64
"""The least width that graph_layers.integer_layer() computes in integers."""
_HELD = 0.25
"""Share of a side's time spent waiting for the other, above which the other is the bottleneck."""
_PUBLISHED_ACTORS = 4
_NO_ENERGY = "<p>Not available on this machine; see “Left out” for the reason.</p>"
_NO_GPU = (
    "There is no GPU here. At the published size, 3 × 2048, actors would wait for the learner in every precision: most "
    "tasks are trained with other sizes. Actors without a learner are measured at the published size."
)
_CARTPOLE = (
    "CartPole-v1: the published reward, 198.22, is the target, but looks like that of CartPole-v0, which ends an "
    "episode at 200; v1 ends it at 500."
)
TILES = {
    "time to reward, fp32 / int8": "time to reward, fp32 over int8",
    "environment steps/s, int8 / fp32": "environment steps/s at 3 × 2048, int8 over fp32",
    "acting thread's time on parameters (%)": "% of an int8 acting thread's time on parameters at 3 × 2048",
    "publish to installed (ms)": "ms from publish to installed, int8, 8.4 M parameters",
    "score, int8 against fp32 (%)": "% by which int8's final score is above fp32's",
}
"""The required and published figures that have a tile."""


def blocks(results: Results) -> Mapping[str, str]:
    """The blocks of page.md."""
    throughput, breakdowns, crossover, pull_periods, training, curves = (
        results.rows[part] for part in ("throughput", "breakdown", "crossover", "pull_periods", "training", "curves")
    )
    cases, joules = results.plan["training"], _energy(throughput)
    return {
        "tiles": page.worst_tiles(results.comparisons, TILES),
        "limits": page.note_list(limits(training)),
        "misses": page.misses(results.comparisons),
        "times": _time_table(training, curves),
        "scores": _scores_table(training, curves),
        "rates": _rates_table(training),
        "curves": plot_row(_curves(training, curves)) if training else "",
        "simulated": _simulated_table(results.rows["simulated"]),
        "throughput": _throughput_table(throughput),
        "breakdown_bars": _breakdown_bars(breakdowns),
        "breakdown": _breakdown_tables(breakdowns),
        "joules": joules,
        "no_joules": "" if joules else _NO_ENERGY,
        "settings": settings_table(cases),
        "publications": f"{PUBLICATIONS_PER_SECOND:g}",
        "integer_width": str(INTEGER_WIDTH),
        **_pull_periods(pull_periods),
        **_crossover(crossover),
    }


def limits(training: Rows) -> list[str]:
    """Differences from the published experiment, by task, and the bottleneck of the runs."""
    found = [_NO_GPU] if any(row["device"] == "cpu" for row in training) else []
    sizes = dict.fromkeys(_sizes(row) for row in training)
    for size in sizes:
        tasks = dict.fromkeys(row["task"] for row in training if _sizes(row) == size)
        found.append(f"{', '.join(tasks)}: {size}.")
    for task in comparisons.tasks_of(training):
        sides = [f"{precision}: {_bottleneck(these)}" for precision, these in _by_precision(training, task=task)]
        found.append(f"{task}, {'; '.join(sides)}.")
    return found + ([_CARTPOLE] if any(row["task"] == "CartPole-v1" for row in training) else [])


def _sizes(row: Row) -> str:
    """The sizes of a run, next to the published ones that differ."""
    size = " (published: 3 × 2048)" if row["hidden"] != "x".join(map(str, PUBLISHED_HIDDEN)) else ""
    actors = f" (published: {_PUBLISHED_ACTORS} actors)" if row["actors"] != _PUBLISHED_ACTORS else ""
    return (
        f"a policy of {row['hidden']}{size}, {counted(row['actors'], 'actor')}{actors}, "
        f"{row['samples_per_step']:g} samples per environment step"
    )


def _bottleneck(rows: Rows) -> str:
    actors, learner = middle(rows, "actor_push"), middle(rows, "learner_wait")
    which = "actor-bound"
    if max(actors, learner) <= _HELD:
        which = "neither side is the bottleneck"
    elif actors > learner:
        which = "learner-bound, so the actors' precision has little effect on the time to reward"
    return (
        f"{which} (actors waited for the learner for {actors:.0%} of their time, the learner for them for "
        f"{learner:.0%})"
    )


def _by_precision(rows: Rows, **cells_: Any) -> Iterator[tuple[str, Rows]]:
    """The precisions that have rows with these cells, each with these rows."""
    for precision in PRECISIONS:
        if these := chosen(rows, precision=precision, **cells_):
            yield precision, these


def _time_table(training: Rows, curves: Rows) -> str:
    """The published table next to our medians over seeds."""
    header = (
        "", "published reward", "published fp32, int8 (s)", "published speed-up", "our target", "ours, fp32 (s)",
        "fp16 (s)", "int8 (s)", "our speed-up, int8", "fp16", "evaluated every (s)", "steps to it: fp32, fp16, int8",
        "others",
    )  # fmt: skip
    lines = []
    for name in comparisons.tasks_of(training):
        said = TASKS[name]
        ours = {precision: comparisons.reached(training, name, precision) for precision in PRECISIONS}
        full, half, quantized = (each.seconds for each in ours.values())
        lines.append((
            said["published"],
            f"{said['reward_achieved']:g}",
            f"{said['fp32_seconds']:g}, {said['int8_seconds']:g}",
            f"{said['int8_speedup']:g}",
            chosen(training, task=name)[0]["target"],
            *(
                page.figure_text(each.seconds)
                + (f" (reached by {each})" if len(each.seconds_each) < each.seeds else "")
                for each in ours.values()
            ),
            *(
                page.figure_text(full / other)
                + (" (coarse)" if comparisons.coarseness(curves, name, full, other) else "")
                for other in (quantized, half)
            ),
            comparisons.evaluation_period(curves, name),
            ", ".join(page.figure_text(each.steps) for each in ours.values()),
            reference(name),
        ))  # fmt: skip
    return page.table(header, lines)


def _scores_table(training: Rows, curves: Rows) -> str:
    lines = []
    for task in comparisons.tasks_of(training):
        steps, score = comparisons.matched(curves, task)
        final = (page.range_text(comparisons.final_scores(training, task, precision), mean) for precision in PRECISIONS)
        lines.append((task, *final, steps, *(score[precision] for precision in PRECISIONS)))
    return page.table(("", *(f"final, {precision}" for precision in PRECISIONS), "matched steps", *PRECISIONS), lines)


def _rates_table(training: Rows) -> str:
    """How actors and learner spend their time."""
    groups = [
        (f"{task}, {precision}, {these[0]['hidden']}", these)
        for task in comparisons.tasks_of(training)
        for precision, these in _by_precision(training, task=task)
    ]
    columns = {
        "steps/s": "steps_per_second",
        "actors: inference": "actor_inference:.0%",
        "environment": "actor_environment:.0%",
        "push (waits for learner)": "actor_push:.0%",
        "learner: train": "learner_train:.0%",
        "wait": "learner_wait:.0%",
    }
    return page.summary_table(groups, columns)


def _curves(training: Rows, curves: Rows) -> Iterator[str]:
    for task in comparisons.tasks_of(training):
        target, said = chosen(training, task=task)[0]["target"], TASKS[task]["reward_achieved"]
        levels = {"published": said} if said == target else {"published": said, "target": target}
        groups = {precision: comparisons.curves_of(curves, task, precision) for precision in _COLORS}
        yield from draw_curves(task, task, groups, _COLORS.values(), levels)


def _simulated_table(runs: Rows) -> str:
    """Medians over seeds, for each task and source of costs."""
    header = (
        "", "costs", "a step: fp32, fp16, int8 (ms)", "published speed-up", "ours, int8", "fp16",
        *(f"{precision} (s)" for precision in PRECISIONS), "steps to it: fp32, fp16, int8", "seeds that reached it",
        "actors' time that waits for the learner: fp32, fp16, int8 (%)",
    )  # fmt: skip
    lines = []
    for task in comparisons.tasks_of(runs):
        for costs, these in grouped(chosen(runs, task=task), "costs"):
            ours = [comparisons.reached(these, task, precision) for precision in PRECISIONS]
            full, half, quantized = (each.seconds for each in ours)
            groups = [chosen(these, precision=precision) for precision in PRECISIONS]
            there = {precision: each for precision, each in zip(PRECISIONS, ours, strict=True) if each.seeds}
            lines.append((
                task,
                costs,
                ", ".join(page.figure_text(middle(group, "step_ms")) for group in groups),
                f"{TASKS[task]['int8_speedup']:g}",
                full / quantized,
                full / half,
                full,
                half,
                quantized,
                ", ".join(page.figure_text(each.steps) for each in ours),
                ", ".join(f"{precision}: {each}" for precision, each in there.items()),
                ", ".join(page.figure_text(100 * middle(group, "actor_push")) for group in groups),
            ))  # fmt: skip
    return page.table(header, lines)


def _throughput_table(rows: Rows) -> str:
    """Environment steps per second at the published size."""
    lines = []
    for (task, actors), these in grouped(rows, "task", "actors"):
        groups = [chosen(these, precision=precision) for precision in PRECISIONS]
        full, half, quantized = (middle(group, "steps_per_second") for group in groups)
        lines.append((
            f"{task}, {counted(actors, 'actor')}",
            *(page.range_text(known(group, "steps_per_second")) for group in groups),
            quantized / full,
            half / full,
            ", ".join(page.figure_text(middle(group, "inference_s_per_1000")) for group in groups),
        ))  # fmt: skip
    header = ("", "fp32", "fp16", "int8", "int8 / fp32", "fp16 / fp32", "inference alone: fp32, fp16, int8 (ms)")
    return page.table(header, lines)


def _breakdown_bars(rows: Rows) -> str:
    """The acting thread's bars."""
    shown = []
    for (period, precision), these in grouped(rows, "pull_period", "precision"):
        part = _seconds(these)
        shares = [
            (phase, f"c{number}", seconds / sum(part.values()))
            for number, (phase, seconds) in enumerate(part.items(), 1)
        ]
        shown.append((f"{precision}, pull period {period}", share_bar(shares)))
    return page.bars(shown)


def _seconds(rows: Rows) -> dict[str, float]:
    """The acting thread's seconds for 1,000 steps by phase."""
    return {phase: middle(rows, f"{phase}_s_per_1000") for phase in ACTOR_PHASES}


def _breakdown_tables(rows: Rows) -> str:
    """Where an actor's time goes, published above ours, for each pull period."""
    published = comparisons.breakdown()
    tables = []
    header = ("", "step", "pull", "deserialize", "load", "total", "on parameters", "of both threads",
              "second thread: fetch, deserialize, load")  # fmt: skip
    for period in sorted(distinct(rows, "pull_period")):
        lines: list[tuple[str | float, ...]] = []
        for precision in PRECISIONS:
            these = chosen(rows, pull_period=period, precision=precision)
            if said := published.get((period, precision)):
                seconds = [f"{said[f'{part}_seconds']:g} s" for part in header[1:6]]
                share = f"{comparisons.parameters_share(said):.0%}"
                lines.append((f"published {precision}", *seconds, share, "–", "–"))
            if these:
                part = _seconds(these)
                total, shares = sum(part.values()), median(comparisons.all_parameters_share(row) for row in these)
                lines.append((
                    f"ours {precision}", total - part["pull"] - part["load"], part["pull"], "–", part["load"], total,
                    *page.cells(these, "parameter_share:.1%"), f"{shares:.1%}",
                    ", ".join(page.cells(these, *(f"beside_{phase}_s_per_1000" for phase in LOADER_PHASES))),
                ))  # fmt: skip
        caption = f"Pull period {period} steps; published in seconds of a whole measurement, ours of 1,000 steps"
        tables.append(page.table(header, lines, caption))
    return "".join(tables)


def _pull_periods(rows: Rows) -> dict[str, str]:
    """Final score over the pull period."""
    groups = sorted(grouped(rows, "pull_period"))
    title = f"{rows[0]['task']}, int8" if rows else ""
    axes = {
        "pull-periods": ("final score", [mean(known(these, "final_return")) for _, these in groups]),
        "pull-staleness": ("staleness (versions)", [middle(these, "staleness") for _, these in groups]),
    }
    label = f"{title}: pull period (environment steps)"
    plots = (
        draw_lines(name, label, what, [period for period, _ in groups], {"int8": Line(values, "c1")})
        for name, (what, values) in axes.items()
    )
    lines = [
        (
            f"{period:g}",
            mean(known(these, "final_return")),
            *page.cells(these, "staleness", "environment_steps"),
            page.number_of(these),
        )
        for period, these in groups
    ]
    header = ("pull period (steps)", "final score", "staleness (versions)", "environment steps", "seeds")
    return {
        "pull_period_plots": plot_row(plots) if rows else "",
        "pull_periods": page.table(header, lines),
        "pull_periods_title": title,
    }


def _crossover(rows: Rows) -> dict[str, str]:
    """The heat map, the batch sizes at which int8 wins for each width, and all times."""
    widths, batches = sorted(distinct(rows, "width")), sorted(distinct(rows, "batch"))
    heats = []
    for precision in ("int8", "fp16"):
        ratios = np.full((len(batches), len(widths)), np.nan)
        for row in rows:
            ratios[batches.index(row["batch"]), widths.index(row["width"])] = row[f"{precision}_speedup"]
        heats.append((f"crossover-{precision}", f"{precision}: width of 3 layers", "batch", widths, batches, ratios))
    begins = []
    for width in widths:
        wins = sorted(row["batch"] for row in chosen(rows, width=width) if row["int8_speedup"] > 1)
        won = f"int8 wins at batch {', '.join(map(str, wins))}" if wins else "int8 never wins"
        begins.append(f"width {width}: {won}")
    columns = (*(f"{precision}_us" for precision in PRECISIONS), "int8_speedup", "fp16_speedup")
    lines = [(f"{row['width']}, batch {row['batch']}", *(row[column] for column in columns)) for row in rows]
    return {
        "crossover_plots": plot_row(draw_heat(*heat) for heat in heats) if rows else "",
        "crossover_notes": page.note_list(begins),
        "crossover": page.table(("", "fp32 (µs)", "fp16 (µs)", "int8 (µs)", "fp32 / int8", "fp32 / fp16"), lines),
    }


def _energy(rows: Rows) -> str:
    there = [row for row in rows if row["joules_per_1000"] is not None]
    groups = [
        (f"{task}, {actors} actors, {precision}", these)
        for (task, actors, precision), these in grouped(there, "task", "actors", "precision")
    ]
    return page.summary_table(groups, {"joules per 1,000 environment steps": "joules_per_1000"})


def settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings next to those of the runs."""
    names = [
        (row["setting"], row["d4pg"], row["dqn"])
        for row in read_published("actorq", "published/settings.csv", verbatim=True)
    ]
    lines = [
        (name.replace("_", " "), d4pg or "–", _of_all(name, cases, "d4pg"), dqn or "–", _of_all(name, cases, "dqn"))
        for name, d4pg, dqn in [*names, ("samples per environment step", "", "")]
    ]
    return page.table(("", "published D4PG", "ours", "published DQN", "ours"), lines)


def _of_all(name: str, cases: Sequence[TrainingCase], algorithm: str) -> str:
    """A setting of an algorithm's runs: one value, or each value with its tasks."""
    these = [case for case in cases if TASKS[case.task]["algorithm"] == algorithm]
    found = _tasks_by(lambda case: _setting(name, case), these)
    if len(found) < 2:
        return next(iter(found), "–")
    return "; ".join(f"{value} ({', '.join(tasks)})" for value, tasks in found.items())


def _tasks_by(text: Callable[[TrainingCase], str], cases: Sequence[TrainingCase]) -> dict[str, list[str]]:
    """The tasks of the cases by a text about each case."""
    texts = {case.task: text(case) for case in cases}
    return {each: [task for task in texts if texts[task] == each] for each in dict.fromkeys(texts.values())}


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash if there is none."""
    algorithm, topology = case.algorithm, case.topology
    known: dict[str, Any] = {
        "policy": "x".join(map(str, algorithm.hidden)),
        "replay_min": algorithm.learning_starts,
        "priority_exponent": algorithm.priority_exponent if algorithm.prioritized else "0 (uniform)",
        "importance_exponent": algorithm.importance_exponent if algorithm.prioritized else "–",
        "actors": f"{topology.actors}, {topology.envs_per_actor} environment(s) each",
        "pull_period_steps": topology.pull_period,
        "samples per environment step": algorithm.samples_per_step,
    }
    own = write_fields(algorithm)
    if "critic_hidden" in own:
        widths = ",".join(map(str, own["critic_hidden"]))
        known["critic"] = f"LayerNorm {widths}; {own['atoms']} atoms; {own['value_min']:g}..{own['value_max']:g}"
        known["exploration"] = f"gaussian, sigma along {'..'.join(f'{sigma:g}' for sigma in own['sigmas'])}"
    if "epsilon_base" in own:
        known["exploration"] = f"epsilon {own['epsilon_base']:g} ** (1 + {own['epsilon_exponent']:g} i / (N - 1))"
    value = (own | known).get(name, "–")
    return f"{value:g}" if isinstance(value, float) else str(value)
