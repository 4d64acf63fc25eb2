"""The tables of the page: published figures beside ours."""

from collections.abc import Sequence
from typing import Any

from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.report.document import tile_row
from headrace.studies.actorq.cases import TrainingCase
from headrace.studies.actorq.comparisons import Comparison, Rows, matched, reached, tasks_of
from headrace.studies.actorq.tasks import TASKS, breakdown, published_time, reference, settings
from headrace.studies.page import figure_text, table
from headrace.studies.statistics import median

__all__ = ["breakdown_tables", "misses", "settings_table", "throughput_table", "tiles", "time_table"]

_PRECISIONS = ("fp32", "fp16", "int8")


def tiles(comparisons: Sequence[Comparison]) -> str:
    """What is required or was published, each where it is met worst."""
    shown = []
    for figure, text, worst in (
        ("time to reward, fp32 / int8", "time to reward, fp32 over int8", min),
        ("environment steps/s, int8 / fp32", "environment steps/s at 3 × 2048, int8 over fp32", min),
        ("actor's time on parameters (%)", "% of an int8 actor's time on parameters at 3 × 2048", max),
        ("publish to installed (ms)", "ms from publish to installed, int8, 8.4 M parameters", max),
        ("score, int8 against fp32 (%)", "% by which int8's score is above fp32's at matched steps", min),
    ):
        found = [each for each in comparisons if each.figure == figure and each.verdict and each.ours is not None]
        if not found:
            continue
        each = worst(found, key=lambda each: each.ours or 0.0)
        value = figure_text(each.ours or 0.0)
        note = f"{text}: {each.where}, where it is worst ({_asked(each)})"
        shown.append((value, note, all(other.verdict == "holds" for other in found)))
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
        "", "published reward", "published fp32, int8 (s)", "published speed-up", "our target", "ours, fp32, int8 (s)",
        "our speed-up", "steps to it, fp32, int8", "final score, fp32, int8", "others",
    )  # fmt: skip
    lines = []
    for name in tasks_of(training):
        task = TASKS[name]
        said = published_time(task)
        full, quantized = (reached(training, name, precision) for precision in ("fp32", "int8"))
        target = next(row["target"] for row in training if row["task"] == name)
        missing = [
            f"{precision} in {each}"
            for precision, each in (("fp32", full), ("int8", quantized))
            if len(each.seconds_each) < each.seeds
        ]
        lines.append((
            task.published,
            f"{said.reward:g}",
            f"{said.fp32_seconds:g}, {said.int8_seconds:g}",
            f"{said.speedup:g}",
            figure_text(target),
            f"{figure_text(full.seconds)}, {figure_text(quantized.seconds)}"
            + (f" (reached by {', '.join(missing)})" if missing else ""),
            figure_text(full.seconds / quantized.seconds),
            f"{figure_text(full.steps)}, {figure_text(quantized.steps)}",
            ", ".join(_final(training, name, precision) for precision in ("fp32", "int8")),
            reference(task),
        ))  # fmt: skip
    return table(header, lines) + _matched_table(training, curves) + _rates_table(training)


def throughput_table(rows: Rows) -> str:
    """Environment steps per second at the published size."""
    lines = []
    for task, actors in dict.fromkeys((row["task"], row["actors"]) for row in rows):
        of = {
            precision: [
                row for row in rows if (row["task"], row["actors"], row["precision"]) == (task, actors, precision)
            ]
            for precision in _PRECISIONS
        }
        rates = {precision: [row["steps_per_second"] for row in these] for precision, these in of.items()}
        lines.append((
            f"{task}, {actors} actor{'s' if actors > 1 else ''}",
            *(_range(rates[precision]) for precision in _PRECISIONS),
            figure_text(median(rates["int8"]) / median(rates["fp32"])),
            figure_text(median(rates["fp16"]) / median(rates["fp32"])),
            ", ".join(
                figure_text(median([row["inference_s_per_1000"] for row in of[precision]]))
                for precision in _PRECISIONS
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
        "beside it: fetch, deserialize, load",
    )
    for period in sorted({row["pull_period"] for row in rows}):
        lines = []
        for precision in _PRECISIONS:
            these = [row for row in rows if (row["pull_period"], row["precision"]) == (period, precision)]
            said = published.get((period, precision))
            if said:
                cells = [f"{value:g} s" for value in said]
                lines.append((f"published {precision}", *cells, f"{said.parameter_share:.0%}", "–"))
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
    by_kind = {"d4pg": D4PG, "dqn": DQN}
    ours = {
        name: next((case for case in cases if isinstance(case.algorithm, kind)), None) for name, kind in by_kind.items()
    }
    lines = [
        (row["setting"].replace("_", " "), row["d4pg"] or "–", _setting(row["setting"], ours["d4pg"]),
         row["dqn"] or "–", _setting(row["setting"], ours["dqn"]))
        for row in settings()
    ]  # fmt: skip
    lines.append(("samples per environment step", "–", _setting("samples", ours["d4pg"]), "–",
                  _setting("samples", ours["dqn"])))  # fmt: skip
    return table(("", "published D4PG", "ours", "published DQN", "ours"), lines)


def _setting(name: str, case: TrainingCase | None) -> str:
    """A published setting's counterpart in a run; an en dash where it has none, or nothing of the kind was run."""
    if case is None:
        return "–"
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
        "samples": algorithm.samples_per_step,
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
        *(figure_text(value) for value in (step, part["pull"], 0.0, part["load"], sum(part.values()))),
        f"{median([row['parameter_share'] for row in rows]):.1%}",
        ", ".join(figure_text(value) for value in beside),
    )


def _matched_table(training: Rows, curves: Rows) -> str:
    lines = []
    for task in tasks_of(training):
        steps, score = matched(curves, task, _PRECISIONS)
        lines.append((task, figure_text(steps), *(figure_text(score[precision]) for precision in _PRECISIONS)))
    caption = "At matched steps: running mean over 10 evaluations, mean over seeds"
    return table(("", "environment steps", *_PRECISIONS), lines, caption)


def _rates_table(training: Rows) -> str:
    """Who was the bottleneck: what each side's time went into."""
    lines = []
    for task in tasks_of(training):
        for precision in _PRECISIONS:
            these = [row for row in training if (row["task"], row["precision"]) == (task, precision)]
            if these:
                columns = ("actor_inference", "actor_environment", "actor_push", "learner_train", "learner_wait")
                shares = [f"{median([row[column] for row in these]):.0%}" for column in columns]
                name = f"{task}, {precision}, {these[0]['hidden']}"
                lines.append((name, figure_text(median([row["steps_per_second"] for row in these])), *shares))
    header = ("", "steps/s", "actors: inference", "environment", "push (held by the learner)", "learner: train", "wait")
    return table(header, lines, "Who waits for whom")


def _final(training: Rows, task: str, precision: str) -> str:
    scores = [row["final_return"] for row in training if (row["task"], row["precision"]) == (task, precision)]
    return _range([score for score in scores if score is not None])


def _range(values: Sequence[float]) -> str:
    middle = figure_text(median(values))
    return f"{middle} ({figure_text(min(values))} to {figure_text(max(values))})" if len(values) > 1 else middle


def _asked(each: Comparison) -> str:
    parts = [f"required {each.required}"] if each.required else []
    return ", ".join([*parts, *([f"published {each.published}"] if each.published else [])])
