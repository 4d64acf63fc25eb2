"""The tables and plots of the study: published and measured figures side by side."""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from headrace.gradients.measured import STALENESS
from headrace.report.document import plot_row
from headrace.report.formats import counted
from headrace.studies import page
from headrace.studies.base import Results
from headrace.studies.comparisons import Comparison
from headrace.studies.curves import curve_of
from headrace.studies.downpour.comparisons import SYSTEM, TRANSPORTS, medians, published_times
from headrace.studies.downpour.training import LOCAL_UPDATES, STALENESS_LIMIT, TrainingCase
from headrace.studies.plots import Line, draw_curves, draw_lines
from headrace.studies.sheet import Rows, read_published
from headrace.studies.statistics import chosen, distinct, grouped, known, mean

__all__ = ["blocks", "tiles"]

_COLORS = ("c1", "c7", "c3", "c2", "c5", "c4")
_POLICY_COLORS = {"accept": "c7", "drop": "c2", "scale": "c1", "compensate": "c3", LOCAL_UPDATES: "c5"}
_SHARD_COLORS = {1: "c1", 2: "c3", 4: "c5"}
_OTHER_MACHINE = (
    "Published milliseconds are of a dual-core i7 at 2.2 GHz, Caffe and HTTP, ours of one thread and a server on the "
    "same machine: compare shares."
)
_ONLY_OURS = (
    "Small scale trains Snake with the preset’s settings only, and for too few steps to say which is better; the "
    "published settings are trained at full scale."
)
_EPSILON = (
    "The published epsilon falls over 50,000 updates, after 20,000 steps of a random policy. Ours falls over the first "
    "50,000 environment steps: at the first update it is 0.64."
)
_NO_SCORE = (
    "No score was published: distributed runs are compared with serial ones. The published score on Snake is that of "
    "another system."
)


def blocks(results: Results) -> Mapping[str, str]:
    """The blocks of page.md."""
    timing, scaling, reward, staleness = (results.rows[part] for part in ("timing", "scaling", "reward", "staleness"))
    trained = {row["case"] for row in reward}
    curves = [row for row in results.rows["curves"] if row["case"] in trained]
    limits = [_OTHER_MACHINE] if timing else []
    if reward:
        published = "published" in distinct(reward, "label")
        limits += [_EPSILON] if published else [_ONLY_OURS] if results.scale == "small" else []
        limits.append(_NO_SCORE)
    turns, alone = _timing_tables(timing) if timing else ("", "")
    return {
        "tiles": tiles(results.comparisons),
        "limits": page.note_list(limits),
        "misses": page.misses(results.comparisons),
        "shares": _shares(timing) if timing else "",
        "turns": turns,
        "alone": alone,
        "scaling_plots": plot_row(_scaling_plots(scaling)) if scaling else "",
        "scaling": _scaling_table(scaling),
        "curves": plot_row(_curves(curves)) if curves else "",
        "reward": _reward_table(reward),
        "staleness_plots": plot_row(_staleness_plots(staleness)) if staleness else "",
        "staleness": _staleness_table(staleness),
        "staleness_limit": str(STALENESS_LIMIT),
        "settings": _settings_table(results.plan["reward"]) if reward else "",
    }


def tiles(comparisons: Sequence[Comparison]) -> str:
    """The required figures, each with its worst value."""
    share = "push and fetch / gradient"
    return page.worst_tiles(comparisons, {
        share: "of a gradient's time for its way to the parameters and theirs back",
        "updates/s of one pusher": "updates a second of one pusher at 228 k parameters",
        "final score on Snake": "apples less deaths in an episode of Snake",
    }, (share,))  # fmt: skip


def _shares(rows: Rows) -> str:
    """The communication's share of the gradient's time, by network size."""
    said = published_times()
    lines = {"published": Line([100 * each["share"] for each in said.values()], "ink", dashed=True)}
    for (transport, title), color in zip(TRANSPORTS.items(), _COLORS, strict=False):
        found = [100 * medians(rows, pixels=pixels, transport=transport).get("share", nan) for pixels in said]
        if not np.isnan(found).all():
            lines[title] = Line(found, color)
    label = "% of the gradient's time"
    return plot_row([draw_lines("shares", "pixels to a side", label, list(said), lines, logarithmic=True)])


def _timing_tables(rows: Rows) -> tuple[str, str]:
    """Times of a gradient and its communication, theirs above ours; then the server alone, compared with memory."""
    turns: list[Sequence[page.Cell]] = []
    alone: list[Sequence[page.Cell]] = []
    for pixels, said in published_times().items():
        size = f"{pixels} × {pixels}"
        name, update = f"{size}, published", said["server_update_ms"]
        times = (said["gradient_ms"], said["pack_ms"], "–", update, said["load_ms"])
        turns.append((name, f"{said['parameters']:,}", *times, f"{said['share']:.1%}"))
        alone.append((name, "–", update, said["updates_per_second"], "–", "–", "–", "–"))
        for transport, title in TRANSPORTS.items():
            if these := chosen(rows, pixels=pixels, transport=transport):
                name = f"{size}, {title}"
                count, gradient, *rest = page.cells(
                    these, "parameters:,.0f", "gradient_ms", "move_ms", "apply_ms", "fetch_ms", "share:.1%"
                )
                turns.append((name, count, gradient, "–", *rest))
                server = ("busy_push_ms", "busy_apply_ms", "updates_per_second", "pass_ms", "apply_passes")
                alone.append((name, *page.cells(these, *server, "apply_alone_ms", "copy_ms")))
    header = ("", "parameters", "gradient (ms)", "pack", "move", "apply", "fetch (theirs: load)", "share")
    below = ("", "push (ms)", "apply", "updates/s", "a pass (ms)", "apply / pass", "optimizer alone (ms)", "a copy")
    return page.table(header, turns), page.table(below, alone)


def _scaling_plots(rows: Rows) -> list[str]:
    """Updates per second over pushers, without fetches by number of shards, and with fetches; bounds are dashed."""
    plots = []
    for transport, mine in grouped(rows, "transport"):
        pushers = sorted(distinct(mine, "pushers"))
        shards = sorted(distinct(mine, "shards"))
        wanted = {counted(count, "shard"): ("updates_per_second", count, 0, _SHARD_COLORS[count]) for count in shards}
        wanted["1, fetching"] = ("updates_per_second", 1, 1, "c2")
        wanted["memory"] = ("memory_bound_per_second", 1, 0, "ink")
        wanted["socket"] = ("socket_bound_per_second", 1, 0, "c6")
        lines = {}
        for name, (column, count, fetches, color) in wanted.items():
            found = [medians(mine, pushers=number, shards=count, fetches=fetches) for number in pushers]
            lines[name] = Line([each.get(column, nan) for each in found], color, column.endswith("bound_per_second"))
        label = f"{TRANSPORTS[transport]}: pushers"
        plots.append(draw_lines(f"scaling-{transport}", label, "updates/s", pushers, lines, logarithmic=True))
    return plots


def _scaling_table(rows: Rows) -> str:
    """Updates per second over pushers, next to their bounds."""
    columns = {
        "updates/s": "updates_per_second",
        "memory’s bound": "memory_bound_per_second",
        "socket’s bound": "socket_bound_per_second",
        "share": "bound_share:.0%",
        "push (ms)": "push_ms",
        "apply (ms)": "apply_ms",
        "staleness": "staleness",
    }
    groups = []
    for (transport, shards, fetches, pushers), these in grouped(rows, "transport", "shards", "fetches", "pushers"):
        way = f"{TRANSPORTS[transport]}, {counted(shards, 'shard')}{', with fetches' if fetches else ''}"
        groups.append((f"{way}, {counted(pushers, 'pusher')}", these))
    return page.summary_table(groups, columns)


def _curves(rows: Rows) -> list[str]:
    """Two plots per group of settings: over environment steps and over training time."""
    plots: list[str] = []
    for label, mine in grouped(rows, "label"):
        groups = {
            "serial" if system[2] == "serial" else f"{system[3]} workers": [
                curve_of(run) for _, run in grouped(these, "seed")
            ]
            for system, these in grouped(mine, *SYSTEM)
        }
        plots += draw_curves(label, f"{label} settings", groups, _COLORS)
    return plots


def _reward_table(rows: Rows) -> str:
    """Final scores and rates, serial next to distributed."""
    groups = [
        (f"{environment}, {label} settings, {topology}" + (f", {workers} workers" if workers > 1 else ""), these)
        for (label, environment, topology, workers, *_), these in grouped(rows, *SYSTEM)
    ]
    return page.summary_table(groups, {
        "final score": _spread,
        "steps": "environment_steps",
        "updates": "updates",
        "samples/step": "samples_per_insert",
        "seconds": "wall_seconds",
        "steps/s": "steps_per_second",
        "updates/s": "updates_per_second",
        "staleness": "staleness",
        "seeds": page.number_of,
    })  # fmt: skip


def _staleness_plots(rows: Rows) -> list[str]:
    """Final scores of the staleness policies over the fetch period, one plot per number of workers."""
    plots = []

    def score(these: Rows, **cells_: Any) -> float:
        return mean(known(chosen(these, **cells_), "final_return"))

    for workers, mine in grouped(chosen(rows, topology="parameter-server"), "workers"):
        periods = sorted(distinct(mine, "fetch_period"))
        lines = {
            policy: Line([score(mine, policy=policy, fetch_period=period) for period in periods], color)
            for policy, color in _POLICY_COLORS.items()
        }
        lines["serial"] = Line([score(rows, topology="serial")] * len(periods), "ink", dashed=True)
        name = f"{workers} workers: fetch period (updates)"
        plots.append(draw_lines(f"staleness-{workers}", name, "final score", periods, lines))
    return plots


def _staleness_table(rows: Rows) -> str:
    """Scores of the policies by workers and fetch period, and the gradients' staleness."""
    lines = []
    for (_, _, topology, workers, period, policy), these in grouped(rows, *SYSTEM):
        if topology == "serial":
            lines.append(("serial", _spread(these), *["–"] * (3 + len(STALENESS)), page.number_of(these)))
            continue
        totals = {column: sum(row[column] for row in these) for column in ("accepted", "dropped", "refused")}
        counts = [sum(row[f"staleness_{bucket}"] for row in these) for bucket in STALENESS]
        lines.append((
            f"{workers} workers, fetch period {period}, {policy}", _spread(these), *page.cells(these, "staleness"),
            f"{totals['dropped'] / (sum(totals.values()) or 1):.1%}", f"{totals['refused']:,}",
            *(f"{count / (sum(counts) or 1):.0%}" for count in counts), page.number_of(these),
        ))  # fmt: skip
    header = ("", "final score", "staleness", "dropped", "refused", *(f"{bucket} behind" for bucket in STALENESS),
              "seeds")  # fmt: skip
    return page.table(header, lines)


def _settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings next to those of the runs on Snake."""
    ours = {case.label: case for case in cases if case.served}
    said = {row["setting"]: row["value"] for row in read_published("downpour", "published/settings.csv", verbatim=True)}
    lines = [
        (name.replace("_", " "), value, *(_setting(name, case) for case in ours.values()))
        for name, value in (said | {"loss": "–", "samples_per_step": "–"}).items()
    ]
    return page.table(("", "published", *(f"ours, {label} settings" for label in ours)), lines) if ours else ""


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash if there is none."""
    algorithm, served = case.algorithm, case.served
    words = [word for word, on in (("double", algorithm.double), ("prioritized", algorithm.prioritized)) if on]
    decay = f" decay {algorithm.optimizer_decay:g}" if algorithm.optimizer == "rmsprop" else ""
    counterparts: dict[str, Any] = {
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
        "fetch_and_push_period_steps": f"{served['fetch_period']} and {served['push_period']} updates",
        "loss": ", ".join([algorithm.loss, *words]),
        "samples_per_step": f"{algorithm.samples_per_step:g}",
    }
    return str(counterparts.get(name, "–"))


def _spread(rows: Rows) -> str:
    """The mean of the final scores with the standard deviation over seeds; an en dash without scores."""
    scores = known(rows, "final_return")
    text = page.figure_text(mean(scores))
    return f"{text} ± {page.figure_text(float(np.std(scores, ddof=1)))}" if len(scores) > 1 else text
