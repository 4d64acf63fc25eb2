"""The page of the study: published and measured figures side by side."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np

from headrace.gradients.measured import STALENESS
from headrace.report.document import plot_row
from headrace.report.formats import counted
from headrace.studies.base import Page, Results
from headrace.studies.comparisons import Comparison
from headrace.studies.curves import WINDOW, curve_of
from headrace.studies.downpour.cases import STALENESS_LIMIT, TrainingCase
from headrace.studies.downpour.comparisons import SYSTEM, TRANSPORTS, medians
from headrace.studies.downpour.published import PIXELS, published_settings, published_times
from headrace.studies.page import (
    Columns,
    cells,
    figure_text,
    misses,
    note,
    note_list,
    number_of,
    summary_table,
    table,
    worst_tiles,
)
from headrace.studies.plots import Line, draw_curves, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, known, mean
from headrace.studies.training import FINAL_EPISODES

__all__ = ["present", "tiles"]

_COLORS = ("c1", "c7", "c3", "c2", "c5", "c4")
_POLICY_COLORS = {"accept": "c7", "drop": "c2", "scale": "c1", "compensate": "c3"}
_SHARD_COLORS = {1: "c1", 2: "c3", 4: "c5"}


def present(results: Results) -> Page:
    """The page of these rows."""
    timing, scaling, reward, staleness = (results.rows[part] for part in ("timing", "scaling", "reward", "staleness"))
    trained = {row["case"] for row in reward}
    curves = [row for row in results.rows["curves"] if row["case"] in trained]
    sections = (
        ("What can't be compared", note_list(_limits(timing, reward))),
        ("Short of what was asked", misses(results.comparisons)),
        ("A gradient and its way, published and here", _shares(timing) + _timing_tables(timing)),
        ("More workers than one", _scaling(scaling)),
        ("Serial and distributed, on Snake", _curves(curves) + _reward_table(reward)),
        ("Gradients that come late", _staleness(staleness)),
        ("Settings, published and here", _settings_table(results.plan["reward"]) if reward else ""),
    )
    method = (
        f"Scale {results.scale}. Servers are headrace serve; workers and pushers are processes with one thread each. "
        "Runs of headrace.train have equal environment steps and replay ratios in every topology; evaluations are "
        f"off the clock, and the final score is the mean of {FINAL_EPISODES} greedy episodes. README.md of "
        "headrace/studies/downpour defines each figure."
    )
    return Page("Downpour SGD", tiles(results.comparisons), sections, [method])


def tiles(comparisons: Sequence[Comparison]) -> str:
    """The required figures, each with its worst value."""
    way = "of a gradient's time for its way to the parameters and theirs back"
    return worst_tiles(comparisons, (
        ("push and fetch / gradient", way, "{:.1%}".format),
        ("updates/s of one pusher", "updates a second of one pusher at 228 k parameters", figure_text),
        ("final score on Snake", "apples less deaths in an episode of Snake", figure_text),
    ))  # fmt: skip


def _shares(rows: Rows) -> str:
    """The communication's share of the gradient's time, by network size."""
    if not rows:
        return ""
    said = published_times()
    lines = {"published": Line([100 * said[pixels].share for pixels in PIXELS], "ink", dashed=True)}
    for (transport, title), color in zip(TRANSPORTS.items(), _COLORS, strict=False):
        found = [100 * medians(rows, pixels=pixels, transport=transport).get("share", nan) for pixels in PIXELS]
        if not np.isnan(found).all():
            lines[title] = Line(found, color)
    label = "% of the gradient's time"
    return plot_row([draw_lines("shares", "pixels to a side", label, PIXELS, lines, logarithmic=True)])


def _timing_tables(rows: Rows) -> str:
    """Times of a gradient and its communication, theirs above ours; then the server alone, compared with memory."""
    if not rows:
        return ""
    turns: list[Sequence[str]] = []
    alone: list[Sequence[str]] = []
    for pixels, said in published_times().items():
        size = f"{pixels} × {pixels}"
        name = f"{size}, published"
        pack, load, gradient, update = map(
            figure_text, (said.pack_ms, said.load_ms, said.gradient_ms, said.server_update_ms)
        )
        turns.append((name, f"{said.parameters:,}", gradient, pack, "–", update, load, f"{said.share:.1%}"))
        alone.append((name, "–", update, figure_text(said.updates_per_second), "–", "–", "–", "–"))
        for transport, title in TRANSPORTS.items():
            these = chosen(rows, pixels=pixels, transport=transport)
            if not these:
                continue
            name, ours = f"{size}, {title}", medians(these)
            gradient, *rest = cells(these, "gradient_ms", "move_ms", "apply_ms", "fetch_ms")
            turns.append((name, f"{ours['parameters']:,.0f}", gradient, "–", *rest, f"{ours['share']:.1%}"))
            server = ("busy_push_ms", "busy_apply_ms", "updates_per_second", "pass_ms", "apply_passes")
            alone.append((name, *cells(these, *server, "apply_alone_ms", "copy_ms")))
    about = note(
        "Ours has nothing to pack: the gradients are views of one vector. The server measures apply, with its check "
        "for non-finite numbers; move is the rest of the push, which was not published; both are means. A pass is "
        "NumPy’s; benchmarks.shards compares apply with a pass in C. The share is push and fetch over the gradient."
    )
    header = ("", "parameters", "gradient (ms)", "pack", "move", "apply", "fetch (theirs: load)", "share")
    caption = "A worker’s turn, batch 32, one thread: a gradient, its way to the parameters, and theirs back"
    below = ("", "push (ms)", "apply", "updates/s", "a pass (ms)", "apply / pass", "optimizer alone (ms)", "a copy")
    return about + table(header, turns, caption) + table(below, alone, "One pusher that does nothing else")


def _scaling(rows: Rows) -> str:
    """Updates per second over pushers, without fetches by number of shards, and with fetches; bounds are dashed."""
    plots: list[str] = []
    for transport, mine in grouped(rows, "transport"):
        pushers = sorted(distinct(mine, "pushers"))

        def over(column: str, shards: int, color: str, *, fetches: int = 0, dashed: bool = False) -> Line:
            found = [medians(mine, pushers=count, shards=shards, fetches=fetches) for count in pushers]  # noqa: B023
            return Line([each.get(column, nan) for each in found], color, dashed)

        lines = {
            counted(shards, "shard"): over("updates_per_second", shards, _SHARD_COLORS[shards])
            for shards in sorted(distinct(mine, "shards"))
        }
        lines["1, fetching"] = over("updates_per_second", 1, "c2", fetches=1)
        lines["memory"] = over("memory_bound_per_second", 1, "ink", dashed=True)
        lines["socket"] = over("socket_bound_per_second", 1, "c6", dashed=True)
        label = f"{TRANSPORTS[transport]}: pushers"
        plots.append(draw_lines(f"scaling-{transport}", label, "updates/s", pushers, lines, logarithmic=True))
    about = note(
        "Pushers compute nothing: workers cannot be faster. The memory’s bound is the rate of passes over the "
        "memory of an update, on one core for each shard (in the plot for 1 shard); the socket’s is the rate of "
        "gradients over as many bare connections (in shared memory of small frames), each answered before the next. "
        "Without fetches, parameters become ever staler."
    )
    return about + plot_row(plots) + _scaling_table(rows) if rows else ""


def _scaling_table(rows: Rows) -> str:
    """Updates per second over pushers, next to their bounds."""
    columns = {
        "updates/s": "updates_per_second", "memory’s bound": "memory_bound_per_second",
        "socket’s bound": "socket_bound_per_second", "share": "bound_share:.0%",
        "push (ms)": "push_ms", "apply (ms)": "apply_ms", "staleness": "staleness",
    }  # fmt: skip
    groups = [
        (f"{TRANSPORTS[transport]}, {counted(shards, 'shard')}{', with fetches' * bool(fetches)}, "
         f"{counted(pushers, 'pusher')}", these)
        for (transport, shards, fetches, pushers), these in grouped(rows, "transport", "shards", "fetches", "pushers")
    ]  # fmt: skip
    return summary_table(groups, columns, "All pushers together; published: 200 updates/s with any number of workers")


def _curves(rows: Rows) -> str:
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
    intro = note(
        f"Running mean over {WINDOW} places of a grid that all runs of a plot have in common; mean and standard "
        "deviation over seeds. The score is the return: an apple is worth 1, and a death −1."
    )
    return intro + plot_row(plots) if plots else ""


def _reward_table(rows: Rows) -> str:
    """Final scores and rates, serial next to distributed."""
    columns: Columns = {
        "final score": _spread, "steps": "environment_steps", "updates": "updates",
        "samples/step": "samples_per_insert", "seconds": "wall_seconds",
        "steps/s": "steps_per_second", "updates/s": "updates_per_second",
        "staleness": "staleness", "seeds": number_of,
    }  # fmt: skip
    groups = [
        (f"{environment}, {label} settings, {topology}" + (f", {workers} workers" if workers > 1 else ""), these)
        for (label, environment, topology, workers, *_), these in grouped(rows, *SYSTEM)
    ]
    return summary_table(groups, columns, "Mean of 100 greedy episodes, and its spread over seeds; medians of the rest")


def _staleness(rows: Rows) -> str:
    """Final scores of the staleness policies over the fetch period, one plot per number of workers; then a table."""
    plots: list[str] = []
    serial = mean(known(chosen(rows, topology="serial"), "final_return"))
    served = chosen(rows, topology="parameter-server")
    for workers, mine in grouped(served, "workers"):
        periods = sorted(distinct(mine, "fetch_period"))
        lines = {
            policy: Line(
                [mean(known(chosen(mine, policy=policy, fetch_period=period), "final_return")) for period in periods],
                color,
            )
            for policy, color in _POLICY_COLORS.items()
        }
        lines["serial"] = Line([serial] * len(periods), "ink", dashed=True)
        name = f"{workers} workers: fetch period (updates)"
        plots.append(draw_lines(f"staleness-{workers}", name, "final score", periods, lines))
    about = note(
        "A worker that fetches rarely computes gradients at old parameters. “drop” drops gradients that are more than "
        f"{STALENESS_LIMIT} updates late."
    )
    return about + plot_row(plots) + _staleness_table(rows) if rows else ""


def _staleness_table(rows: Rows) -> str:
    """Scores of the policies by workers and fetch period, and the gradients' staleness."""
    lines = []
    for (_, _, topology, workers, period, policy), these in grouped(rows, *SYSTEM):
        if topology == "serial":
            lines.append(("serial", _spread(these), *["–"] * (3 + len(STALENESS)), str(len(these))))
            continue
        totals = {column: sum(row[column] for row in these) for column in ("accepted", "dropped", "refused")}
        counts = [sum(row[f"staleness_{bucket}"] for row in these) for bucket in STALENESS]
        lines.append((
            f"{workers} workers, fetch period {period}, {policy}", _spread(these), *cells(these, "staleness"),
            f"{totals['dropped'] / (sum(totals.values()) or 1):.1%}", f"{totals['refused']:,}",
            *(f"{count / (sum(counts) or 1):.0%}" for count in counts), str(len(these)),
        ))  # fmt: skip
    header = ("", "final score", "staleness", "dropped", "refused", *(f"{bucket} behind" for bucket in STALENESS),
              "seeds")  # fmt: skip
    return table(header, lines, "Gradients by how many updates of others they came late")


def _settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings next to those of the runs on Snake."""
    ours = {case.label: case for case in cases if case.served}
    if not ours:
        return ""
    names = published_settings() | {"loss": "–", "samples_per_step": "–"}
    lines = [
        (name.replace("_", " "), said, *(_setting(name, case) for case in ours.values()))
        for name, said in names.items()
    ]
    return table(("", "published", *(f"ours, {label} settings" for label in ours)), lines)


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash if there is none."""
    algorithm, served = case.algorithm, case.served
    assert served is not None
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


def _limits(timing: Rows, reward: Rows) -> list[str]:
    """Differences of the rows from the published experiment."""
    found = []
    if timing:
        found.append(
            "Published milliseconds are of a dual-core i7 at 2.2 GHz, Caffe and HTTP, ours of one thread and a server "
            "on the same machine: compare shares."
        )
    if reward and distinct(reward, "label") == ["ours"]:
        found.append(
            "Small scale trains Snake with the preset’s settings only, and for too few steps to say which is better; "
            "the published settings are trained at full scale."
        )
    elif reward:
        found.append(
            "The published epsilon falls over 50,000 updates, after 20,000 steps of a random policy. Ours falls over "
            "the first 50,000 environment steps: at the first update it is 0.64."
        )
    if reward:
        found.append(
            "No score was published: distributed runs are compared with serial ones. The published score on Snake is "
            "that of another system."
        )
    return found


def _spread(rows: Rows) -> str:
    """The mean of the final scores with the standard deviation over seeds; an en dash without scores."""
    scores = known(rows, "final_return")
    text = figure_text(mean(scores))
    return f"{text} ± {figure_text(float(np.std(scores, ddof=1)))}" if len(scores) > 1 else text
