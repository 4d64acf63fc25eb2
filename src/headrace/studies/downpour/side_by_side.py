"""The page's tables: what was published beside what was measured here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.gradients.measured import STALENESS
from headrace.report.document import tile_row
from headrace.studies.downpour.cases import TrainingCase
from headrace.studies.downpour.comparisons import (
    TRANSPORTS,
    Comparison,
    Rows,
    final_scores,
    medians,
    of_system,
    systems,
)
from headrace.studies.downpour.sources import published_settings, published_times
from headrace.studies.page import figure_text, table
from headrace.studies.statistics import mean, median
from headrace.topologies.config import ParameterServer

__all__ = ["misses", "reward_table", "scaling_table", "settings_table", "staleness_table", "tiles", "timing_tables"]


def tiles(comparisons: Sequence[Comparison]) -> str:
    """What is required, each where it is met worst; good where it is met everywhere."""
    shown = []
    for figure, text in (
        ("push and fetch / gradient", "of a gradient's time for its way to the parameters and theirs back"),
        ("updates/s of one pusher", "updates a second of one pusher at 228 k parameters"),
        ("final score on Snake", "apples less deaths in an episode of Snake"),
    ):
        judged = [each for each in comparisons if each.figure == figure and each.verdict]
        if judged:
            each = max(judged, key=lambda each: each.shortfall)
            value = f"{each.ours:.1%}" if figure.endswith("gradient") else figure_text(each.ours)
            note = f"{text}: {each.where}, where it is worst ({_asked(each)})"
            shown.append((value, note, all(each.verdict == "holds" for each in judged)))
    return tile_row(shown)


def misses(comparisons: Sequence[Comparison]) -> list[str]:
    """Where ours is short of what is required."""
    return [
        f"{each.figure}, {each.where}: {figure_text(each.ours)}, {_asked(each)}"
        for each in comparisons
        if each.verdict == "MISSED"
    ]


def timing_tables(rows: Rows) -> str:
    """A gradient and its way, theirs above ours; then the server alone, beside the memory."""
    if not rows:
        return ""
    turns: list[tuple[str, ...]] = []
    alone: list[tuple[str, ...]] = []
    for pixels, said in published_times().items():
        size = f"{pixels} × {pixels}"
        name = f"{size}, published"
        pack, load, gradient, update = (
            figure_text(value) for value in (said.pack_ms, said.load_ms, said.gradient_ms, said.server_update_ms)
        )
        turns.append((name, f"{said.parameters:,}", gradient, pack, "–", update, load, f"{said.share:.1%}"))
        alone.append((name, "–", update, figure_text(said.updates_per_second), "–", "–", "–", "–"))
        for transport, title in TRANSPORTS.items():
            ours = medians(rows, pixels=pixels, transport=transport)
            if not ours:
                continue
            name = f"{size}, {title}"
            figures = [figure_text(ours[f"{part}_ms"]) for part in ("gradient", "move", "apply", "fetch")]
            turns.append(
                (name, f"{ours['parameters']:,.0f}", figures[0], "–", *figures[1:], f"{ours['share']:.1%}")
            )  # fmt: skip
            server = ("busy_push_ms", "busy_apply_ms", "updates_per_second", "pass_ms", "apply_passes")
            others = ("apply_alone_ms", "copy_ms")
            alone.append((name, *(figure_text(ours[column]) for column in (*server, *others))))
    note = (
        '<p class="soft">Ours has nothing to pack: the network’s gradients are views of one vector. Apply is by the '
        "server’s own clock, its look for numbers that are not finite included; move is the rest of the push, of means "
        "as apply is. A pass is NumPy’s, two loops; benchmarks.shards holds apply against one loop in C. Theirs "
        "has no time of the way itself. The share is of all but the gradient.</p>"
    )
    header = ("", "parameters", "gradient (ms)", "pack", "move", "apply", "fetch (theirs: load)", "share")
    caption = "A worker’s turn, batch 32, one thread: a gradient, its way to the parameters, and theirs back"
    below = ("", "push (ms)", "apply", "updates/s", "a pass (ms)", "apply / pass", "optimizer alone (ms)", "a copy")
    return note + table(header, turns, caption) + table(below, alone, "One pusher that does nothing else")


def scaling_table(rows: Rows) -> str:
    """Updates a second over pushers, beside their bounds."""
    lines = []
    keys = dict.fromkeys((row["transport"], row["shards"], row["fetches"], row["pushers"]) for row in rows)
    for transport, shards, fetches, pushers in keys:
        ours = medians(rows, transport=transport, shards=shards, fetches=fetches, pushers=pushers)
        columns = ("updates_per_second", "memory_bound_per_second", "socket_bound_per_second")
        lines.append(
            (
                f"{TRANSPORTS[transport]}, {shards} shard{'s' * (shards > 1)}{', with fetches' * bool(fetches)}, "
                f"{pushers} pusher{'s' * (pushers > 1)}",
                *(figure_text(ours[column]) for column in columns),
                f"{ours['bound_share']:.0%}",
                *(figure_text(ours[column]) for column in ("push_ms", "apply_ms", "staleness")),
            )
        )
    header = ("", "updates/s", "memory’s bound", "socket’s bound", "share", "push (ms)", "apply (ms)", "staleness")
    return table(header, lines, "All pushers together; published: 200 updates/s, whatever pushes")


def reward_table(rows: Rows) -> str:
    """Final scores and rates, serial beside distributed."""
    lines = []
    for system in systems(rows):
        label, environment, topology, workers, *_ = system
        these = of_system(rows, system)
        name = f"{environment}, {label} settings, {topology}" + (f", {workers} workers" if workers > 1 else "")
        figures = ("environment_steps", "updates", "samples_per_insert", "wall_seconds")
        rates = ("steps_per_second", "updates_per_second", "staleness")
        lines.append(
            (name, _spread(final_scores(these)), *(_middle(these, column) for column in (*figures, *rates)),
             str(len(these)))
        )  # fmt: skip
    header = ("", "final score", "steps", "updates", "samples/step", "seconds", "steps/s", "updates/s", "staleness",
              "seeds")  # fmt: skip
    return table(header, lines, "Mean of 100 greedy episodes, and its spread over seeds; medians of the rest")


def staleness_table(rows: Rows) -> str:
    """Scores of the policies over workers and fetch period, and what became of the gradients."""
    lines = []
    for system in systems(rows):
        _, _, topology, workers, period, policy = system
        these = of_system(rows, system)
        if topology == "serial":
            lines.append(("serial", _spread(final_scores(these)), *["–"] * (3 + len(STALENESS)), str(len(these))))
            continue
        totals = {column: sum(row[column] for row in these) for column in ("accepted", "dropped", "refused")}
        pushed = sum(totals.values()) or 1
        counts = [sum(row[f"staleness_{bucket}"] for row in these) for bucket in STALENESS]
        shares = [f"{count / (sum(counts) or 1):.0%}" for count in counts]
        lines.append(
            (f"{workers} workers, fetch period {period}, {policy}", _spread(final_scores(these)),
             _middle(these, "staleness"), f"{totals['dropped'] / pushed:.1%}", f"{totals['refused']:,}", *shares,
             str(len(these)))
        )  # fmt: skip
    header = ("", "final score", "staleness", "dropped", "refused", *(f"{bucket} behind" for bucket in STALENESS),
              "seeds")  # fmt: skip
    return table(header, lines, "Gradients by how many updates of others they came late")


def settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings beside those of the runs on Snake."""
    ours = {case.label: case for case in cases if isinstance(case.topology, ParameterServer)}
    if not ours:
        return ""
    names = published_settings()
    lines = [
        (name.replace("_", " "), said, *(_setting(name, case) for case in ours.values()))
        for name, said in [*names.items(), ("loss", "–"), ("samples_per_step", "–")]
    ]
    return table(("", "published", *(f"ours, {label} settings" for label in ours)), lines)


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash where it has none."""
    algorithm, topology = case.algorithm, case.topology
    assert isinstance(topology, ParameterServer)
    words = [word for word, on in (("double", algorithm.double), ("prioritized", algorithm.prioritized)) if on]
    decay = f" decay {algorithm.optimizer_decay:g}" if algorithm.optimizer == "rmsprop" else ""
    known: dict[str, Any] = {
        "board": "the same",
        "actions": "the same",
        "observation": f"of {case.environment}",
        "network": f"{algorithm.network}; {'x'.join(map(str, algorithm.hidden))} hidden",
        "batch_size": algorithm.batch_size,
        "discount": f"{algorithm.discount:g}, {algorithm.n_step} step{'s' * (algorithm.n_step > 1)}",
        "server_optimizer": f"{algorithm.optimizer} lr {algorithm.learning_rate:g}{decay}",
        "target_copy_period_updates": algorithm.target_update_period,
        "epsilon": f"1 to {algorithm.epsilon_final:g} over {algorithm.epsilon_decay_steps:,} environment steps",
        "worker_replay": f"{algorithm.replay_capacity:,}, {algorithm.learning_starts:,} first, epsilon falling",
        "fetch_and_push_period_steps": f"{topology.fetch_period} and {topology.push_period} updates",
        "loss": ", ".join([algorithm.loss, *words]),
        "samples_per_step": f"{algorithm.samples_per_step:g}",
    }
    return str(known.get(name, "–"))


def _spread(scores: Sequence[float]) -> str:
    """A mean with its standard deviation over seeds; an en dash where there is none."""
    middle = figure_text(mean(scores))
    return f"{middle} ± {figure_text(float(np.std(scores, ddof=1)))}" if len(scores) > 1 else middle


def _middle(rows: Sequence[Mapping[str, Any]], column: str) -> str:
    return figure_text(median([row[column] for row in rows]))


def _asked(each: Comparison) -> str:
    return f"required {each.required}" + (f", published {each.published}" if each.published else "")
