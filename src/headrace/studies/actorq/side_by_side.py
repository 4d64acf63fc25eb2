"""The tables of the page: published figures beside ours."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.report.document import tile_row
from headrace.studies.actorq.cases import TrainingCase
from headrace.studies.actorq.comparisons import (
    PRECISIONS,
    Comparison,
    Rows,
    all_parameters_share,
    coarseness,
    evaluation_period,
    final_scores,
    matched,
    reached,
    tasks_of,
)
from headrace.studies.actorq.tasks import TASKS, breakdown, published_time, reference, settings
from headrace.studies.actorq.training import FINAL_EPISODES
from headrace.studies.curves import WINDOW
from headrace.studies.page import figure_text, table
from headrace.studies.statistics import mean, median

__all__ = ["breakdown_tables", "misses", "settings_table", "throughput_table", "tiles", "time_table"]


def tiles(comparisons: Sequence[Comparison]) -> str:
    """What is required or was published, each where it is met worst; good where it is met everywhere."""
    shown = []
    for figure, text, worst in (
        ("time to reward, fp32 / int8", "time to reward, fp32 over int8", min),
        ("environment steps/s, int8 / fp32", "environment steps/s at 3 × 2048, int8 over fp32", min),
        ("acting thread's time on parameters (%)", "% of an int8 acting thread's time on parameters at 3 × 2048", max),
        ("publish to installed (ms)", "ms from publish to installed, int8, 8.4 M parameters", max),
        ("score, int8 against fp32 (%)", "% by which int8's final score is above fp32's", min),
    ):
        judged = [each for each in comparisons if each.figure == figure and each.verdict]
        if not judged:
            continue
        value, note = "–", text
        known = [each for each in judged if each.ours is not None]
        if known:
            each = worst(known, key=lambda each: each.ours or 0.0)
            value = figure_text(each.ours or 0.0)
            note += f": {each.where}, where it is worst ({_asked(each)})"
        absent = sum(1 for each in judged if each.ours is None and each.verdict == "MISSED")
        if absent:
            note += f"; {absent} of {len(judged)} tasks not reached"
        shown.append((value, note, all(each.verdict == "holds" for each in judged)))
    return tile_row(shown)


def misses(comparisons: Sequence[Comparison]) -> list[str]:
    """Where ours is short of what is required or was published."""
    return [
        f"{each.figure}, {each.where}: {'not to be had' if each.ours is None else figure_text(each.ours)}, "
        f"{_asked(each)}" + (f": {each.note}" if each.note else "")
        for each in comparisons
        if each.verdict == "MISSED"
    ]


def time_table(training: Rows, curves: Rows) -> str:
    """The published table, and the same of ours; medians over seeds."""
    header = (
        "", "published reward", "published fp32, int8 (s)", "published speed-up", "our target", "ours, fp32 (s)",
        "fp16 (s)", "int8 (s)", "our speed-up, int8", "fp16", "evaluated every (s)", "steps to it: fp32, fp16, int8",
        "others",
    )  # fmt: skip
    lines = []
    for name in tasks_of(training):
        task = TASKS[name]
        said = published_time(task)
        ours = {precision: reached(training, name, precision) for precision in PRECISIONS}
        target = next(row["target"] for row in training if row["task"] == name)
        lines.append((
            task.published,
            f"{said.reward:g}",
            f"{said.fp32_seconds:g}, {said.int8_seconds:g}",
            f"{said.speedup:g}",
            figure_text(target),
            *(
                figure_text(each.seconds) + (f" (reached by {each})" if len(each.seconds_each) < each.seeds else "")
                for each in ours.values()
            ),
            *(_speedup(curves, name, ours["fp32"].seconds, ours[precision].seconds) for precision in ("int8", "fp16")),
            figure_text(evaluation_period(curves, name)),
            ", ".join(figure_text(each.steps) for each in ours.values()),
            reference(task),
        ))  # fmt: skip
    return table(header, lines) + _scores_table(training, curves) + _rates_table(training)


def throughput_table(rows: Rows) -> str:
    """Environment steps per second at the published size."""
    lines = []
    for task, actors in dict.fromkeys((row["task"], row["actors"]) for row in rows):
        of = {
            precision: [
                row for row in rows if (row["task"], row["actors"], row["precision"]) == (task, actors, precision)
            ]
            for precision in PRECISIONS
        }
        rates = {precision: [row["steps_per_second"] for row in these] for precision, these in of.items()}
        lines.append((
            f"{task}, {actors} actor{'s' if actors > 1 else ''}",
            *(_range(rates[precision]) for precision in PRECISIONS),
            figure_text(median(rates["int8"]) / median(rates["fp32"])),
            figure_text(median(rates["fp16"]) / median(rates["fp32"])),
            ", ".join(
                figure_text(median([row["inference_s_per_1000"] for row in of[precision]]))
                for precision in PRECISIONS
            ),
        ))  # fmt: skip
    header = ("", "fp32", "fp16", "int8", "int8 / fp32", "fp16 / fp32", "inference alone: fp32, fp16, int8 (ms)")
    return table(header, lines, "Environment steps per second of all actors, median (least to most)")


def breakdown_tables(rows: Rows) -> str:
    """Where an actor's time goes, published above ours, for each pull period."""
    published = breakdown()
    tables = []
    header = (
        "",
        "step",
        "pull",
        "deserialize",
        "load",
        "total",
        "on parameters",
        "with the thread beside it",
        "beside it: fetch, deserialize, load",
    )
    for period in sorted({row["pull_period"] for row in rows}):
        lines = []
        for precision in PRECISIONS:
            these = [row for row in rows if (row["pull_period"], row["precision"]) == (period, precision)]
            said = published.get((period, precision))
            if said:
                cells = [f"{value:g} s" for value in said]
                lines.append((f"published {precision}", *cells, f"{said.parameter_share:.0%}", "–", "–"))
            if these:
                lines.append((f"ours {precision}", *_parts(these)))
        tables.append(
            table(
                header,
                lines,
                f"Pull period {period} steps; published in seconds of a whole measurement, ours of 1,000 steps",
            )
        )
    return "".join(tables)


def settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings beside those of the runs."""
    names = [(row["setting"], row["d4pg"], row["dqn"]) for row in settings()]
    lines = [
        (name.replace("_", " "), d4pg or "–", _settings(name, cases, D4PG), dqn or "–", _settings(name, cases, DQN))
        for name, d4pg, dqn in [*names, ("samples per environment step", "", "")]
    ]
    return table(("", "published D4PG", "ours", "published DQN", "ours"), lines)


def _settings(name: str, cases: Sequence[TrainingCase], kind: type[D4PG] | type[DQN]) -> str:
    """A setting of an algorithm's runs: one value, or each that there is with its tasks."""
    tasks: dict[str, dict[str, None]] = {}
    for case in cases:
        if isinstance(case.algorithm, kind):
            tasks.setdefault(_setting(name, case), {})[case.task] = None
    if len(tasks) < 2:
        return next(iter(tasks), "–")
    return "; ".join(f"{value} ({', '.join(those)})" for value, those in tasks.items())


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash where it has none."""
    algorithm, topology = case.algorithm, case.topology
    known: dict[str, Any] = {
        "policy": "x".join(map(str, algorithm.hidden)),
        "learning_rate": algorithm.learning_rate,
        "batch_size": algorithm.batch_size,
        "discount": algorithm.discount,
        "n_step": algorithm.n_step,
        "target_update_period": algorithm.target_update_period,
        "replay_capacity": algorithm.replay_capacity,
        "replay_min": algorithm.learning_starts,
        "priority_exponent": algorithm.priority_exponent if algorithm.prioritized else "0 (uniform)",
        "importance_exponent": algorithm.importance_exponent if algorithm.prioritized else "–",
        "actors": f"{topology.actors}, {topology.envs_per_actor} environment(s) each",
        "pull_period_steps": topology.pull_period,
        "samples per environment step": algorithm.samples_per_step,
    }
    if isinstance(algorithm, D4PG):
        widths = ",".join(map(str, algorithm.critic_hidden))
        known["critic"] = (
            f"LayerNorm {widths}; {algorithm.atoms} atoms; {algorithm.value_min:g}..{algorithm.value_max:g}"
        )
        known["exploration"] = f"gaussian, sigma along {'..'.join(f'{sigma:g}' for sigma in algorithm.sigmas)}"
    if isinstance(algorithm, DQN):
        known["exploration"] = f"epsilon {algorithm.epsilon_base:g} ** (1 + {algorithm.epsilon_exponent:g} i / (N - 1))"
    value = known.get(name, "–")
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parts(rows: Rows) -> tuple[str, ...]:
    """The cells of one of our breakdowns: the acting thread's, then what the thread beside it spends."""
    part = {
        name: median([row[f"{name}_s_per_1000"] for row in rows])
        for name in ("environment", "inference", "push", "other", "pull", "load")
    }
    step = part["environment"] + part["inference"] + part["push"] + part["other"]
    beside = (median([row[f"beside_{name}_s_per_1000"] for row in rows]) for name in ("fetch", "deserialize", "load"))
    return (
        figure_text(step),
        figure_text(part["pull"]),
        "–",  # beside it
        figure_text(part["load"]),
        figure_text(sum(part.values())),
        f"{median([row['parameter_share'] for row in rows]):.1%}",
        f"{median([all_parameters_share(row) for row in rows]):.1%}",
        ", ".join(figure_text(value) for value in beside),
    )


def _speedup(curves: Rows, task: str, full: float, quantized: float) -> str:
    """A ratio of times to reward, marked where the times are a few evaluations long."""
    return figure_text(full / quantized) + (" (coarse)" if coarseness(curves, task, full, quantized) else "")


def _scores_table(training: Rows, curves: Rows) -> str:
    lines = []
    for task in tasks_of(training):
        steps, score = matched(curves, task)
        final = (_range(final_scores(training, task, precision), mean) for precision in PRECISIONS)
        lines.append((task, *final, figure_text(steps), *(figure_text(score[precision]) for precision in PRECISIONS)))
    header = ("", *(f"final, {precision}" for precision in PRECISIONS), "matched steps", *PRECISIONS)
    caption = (
        f"Scores: mean of {FINAL_EPISODES} greedy episodes after the same steps for all, its mean over seeds (least to "
        f"most); then the running mean over {WINDOW} places of one grid of steps, at the most steps that all have "
        "made, its mean over seeds"
    )
    return table(header, lines, caption)


def _rates_table(training: Rows) -> str:
    """Who was the bottleneck: what each side's time went into."""
    lines = []
    for task in tasks_of(training):
        for precision in PRECISIONS:
            these = [row for row in training if (row["task"], row["precision"]) == (task, precision)]
            if these:
                columns = ("actor_inference", "actor_environment", "actor_push", "learner_train", "learner_wait")
                shares = [f"{median([row[column] for row in these]):.0%}" for column in columns]
                name = f"{task}, {precision}, {these[0]['hidden']}"
                lines.append((name, figure_text(median([row["steps_per_second"] for row in these])), *shares))
    header = ("", "steps/s", "actors: inference", "environment", "push (held by the learner)", "learner: train", "wait")
    return table(header, lines, "Who waits for whom")


def _range(values: Sequence[float], centre: Callable[[Sequence[float]], float] = median) -> str:
    middle = figure_text(centre(values))
    return f"{middle} ({figure_text(min(values))} to {figure_text(max(values))})" if len(values) > 1 else middle


def _asked(each: Comparison) -> str:
    parts = [f"required {each.required}"] if each.required else []
    return ", ".join([*parts, *([f"published {each.published}"] if each.published else [])])
