"""The page of the study: what was published beside what was measured here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.report.document import document, plot_row
from headrace.studies.curves import WINDOW, Curve, bands, curve_of
from headrace.studies.downpour.comparisons import (
    TRANSPORTS,
    Comparison,
    Rows,
    final_scores,
    medians,
    of_system,
    systems,
)
from headrace.studies.downpour.plan import STALENESS_LIMIT, Plan
from headrace.studies.downpour.side_by_side import (
    misses,
    reward_table,
    scaling_table,
    settings_table,
    staleness_table,
    tiles,
    timing_tables,
)
from headrace.studies.downpour.sources import PIXELS, published_times
from headrace.studies.downpour.training import FINAL_EPISODES
from headrace.studies.page import lead_of, note_list
from headrace.studies.plots import Line, Strip, draw_lines, draw_strips
from headrace.studies.results import Origin, write_text
from headrace.studies.statistics import mean

if TYPE_CHECKING:
    from headrace.studies.downpour.study import Sheets

__all__ = ["write_page"]

_COLOURS = ("c1", "c7", "c3", "c2", "c5", "c4")
_POLICY_COLOURS = {"accept": "c7", "drop": "c2", "scale": "c1", "compensate": "c3"}
_SHARD_COLOURS = {1: "c1", 2: "c3", 4: "c5"}


def write_page(
    path: Path,
    plan: Plan,
    sheets: "Sheets",
    comparisons: Sequence[Comparison],
    notes: Sequence[str],
    origin: Origin,
) -> None:
    """Writes the page of a plan's rows; raises StorageError where `path` can't be written."""
    timing, scaling, reward, staleness = (
        getattr(sheets, part).of(case.name for case in getattr(plan, part))
        for part in ("timing", "scaling", "reward", "staleness")
    )
    curves = sheets.curves.of(case.name for case in plan.reward)
    sections = (
        ("Left out", note_list(notes)),
        ("What can't be compared", note_list(_limits(timing, reward))),
        ("Short of what was asked", note_list(misses(comparisons))),
        ("A gradient and its way, published and here", _shares(timing) + timing_tables(timing)),
        ("More workers than one", _scaling(scaling)),
        ("Serial and distributed, on Snake", _curves(curves) + (reward_table(reward) if reward else "")),
        ("Gradients that come late", _staleness(staleness)),
        ("Settings, published and here", settings_table(plan.reward) if reward else ""),
        ("How it was measured", _method(plan, [*timing, *scaling, *reward, *staleness])),
    )
    write_text(path, document("Downpour SGD", lead_of(origin), tiles(comparisons), sections))


def _shares(rows: Rows) -> str:
    """The way's share of the gradient's time over the network's size."""
    if not rows:
        return ""
    said = published_times()
    lines = {"published": Line([100 * said[pixels].share for pixels in PIXELS], "ink", dashed=True)}
    for (transport, title), colour in zip(TRANSPORTS.items(), _COLOURS, strict=False):
        found = [medians(rows, pixels=pixels, transport=transport) for pixels in PIXELS]
        if any(found):
            lines[title] = Line([100 * each["share"] if each else nan for each in found], colour)
    label = "% of the gradient's time"
    return plot_row([draw_lines("shares", "pixels to a side", label, PIXELS, lines, logarithmic=True)])


def _scaling(rows: Rows) -> str:
    """Updates a second over pushers: without fetches by shards, and with them; bounds dashed."""
    plots: list[str] = []
    for transport in dict.fromkeys(row["transport"] for row in rows):
        mine = [row for row in rows if row["transport"] == transport]
        pushers = sorted({row["pushers"] for row in mine})
        lines = {}
        for shards in sorted({row["shards"] for row in mine}):
            name = f"{shards} shard{'s' * (shards > 1)}"
            lines[name] = _over_pushers(mine, pushers, "updates_per_second", shards, _SHARD_COLOURS[shards])
        lines["1, fetching"] = _over_pushers(mine, pushers, "updates_per_second", 1, "c2", fetches=1)
        lines["memory"] = _over_pushers(mine, pushers, "memory_bound_per_second", 1, "ink", dashed=True)
        lines["socket"] = _over_pushers(mine, pushers, "socket_bound_per_second", 1, "c6", dashed=True)
        label = f"{TRANSPORTS[transport]}: pushers"
        plots.append(draw_lines(f"scaling-{transport}", label, "updates/s", pushers, lines, logarithmic=True))
    note = (
        '<p class="soft">Pushers compute nothing: these are the most that workers could get. The memory’s bound is '
        "passes of one core over the memory of an update (in the plot for 1 shard; in the table one core for each, as "
        "far as there are cores); the socket’s is gradients over as many bare connections (in shared memory: small "
        "frames), each answered before the next, as the pushers’ are. Parameters that are never fetched again grow "
        "stale without end.</p>"
    )
    return note + plot_row(plots) + scaling_table(rows) if rows else ""


def _over_pushers(
    rows: Rows, pushers: Sequence[int], column: str, shards: int, colour: str, *, fetches: int = 0, dashed: bool = False
) -> Line:
    values = [medians(rows, pushers=count, shards=shards, fetches=fetches).get(column, nan) for count in pushers]
    return Line(values, colour, dashed)


def _curves(rows: Rows) -> str:
    """Two plots for each settings: over environment steps, and over training time."""
    plots: list[str] = []
    for label in dict.fromkeys(row["label"] for row in rows):
        mine = [row for row in rows if row["label"] == label]
        groups = {}
        for system in systems(mine):
            these = of_system(mine, system)
            by_seed: dict[int, list[Mapping[str, Any]]] = {}
            for row in these:
                by_seed.setdefault(row["seed"], []).append(row)
            name = "serial" if system[2] == "serial" else f"{system[3]} workers"
            groups[name] = [curve_of(seed) for seed in by_seed.values()]
        plots += _band_plots(label, groups)
    intro = (
        f'<p class="soft">Running mean over {WINDOW} places of a grid that all runs of a plot have in common; mean and '
        "standard deviation over seeds. The score is the return: an apple is worth 1, and a death −1.</p>"
    )
    return intro + plot_row(plots) if plots else ""


def _band_plots(label: str, groups: Mapping[str, Sequence[Curve]]) -> Iterable[str]:
    for axis, words in (("steps", "environment steps"), ("seconds", "training time (s)")):
        found = bands(groups, axis)
        strips = {
            name: Strip(*found[name], colour)
            for name, colour in zip(groups, _COLOURS, strict=False)
            if name in found
        }  # fmt: skip
        if strips:
            yield draw_strips(f"{label}-{axis}", f"{label} settings: {words}", "score", strips, levels={})


def _staleness(rows: Rows) -> str:
    """Final scores of the policies over the fetch period, a plot for each number of workers."""
    plots: list[str] = []
    serial = mean(final_scores(row for row in rows if row["topology"] == "serial"))
    served = [row for row in rows if row["topology"] != "serial"]
    for workers in dict.fromkeys(row["workers"] for row in served):
        mine = [row for row in served if row["workers"] == workers]
        periods = sorted({row["fetch_period"] for row in mine})
        lines = {
            policy: Line(
                [mean(final_scores(row for row in mine if (row["policy"], row["fetch_period"]) == (policy, period)))
                 for period in periods],
                colour,
            )
            for policy, colour in _POLICY_COLOURS.items()
        }  # fmt: skip
        lines["serial"] = Line([serial] * len(periods), "ink", dashed=True)
        name = f"{workers} workers: fetch period (updates)"
        plots.append(draw_lines(f"staleness-{workers}", name, "final score", periods, lines))
    note = (
        f'<p class="soft">A worker that fetches seldom computes at parameters that others have moved on. “drop” drops '
        f"what is more than {STALENESS_LIMIT} updates late.</p>"
    )
    return note + plot_row(plots) + staleness_table(rows) if rows else ""


def _limits(timing: Rows, reward: Rows) -> list[str]:
    """What of the rows is not the published experiment."""
    found = []
    if timing:
        found.append(
            "Published milliseconds are of a dual-core i7 at 2.2 GHz, Caffe on the processor, and HTTP: what can be "
            "compared are shares. Ours are of one thread, and of a server that shares the machine with it."
        )
    if reward and all(row["label"] == "ours" for row in reward):
        found.append(
            "Their network, frames and settings are trained at full scale only; at small scale Snake is trained with "
            "the preset’s, and for too few steps to say which of both is better."
        )
    elif reward:
        found.append(
            "Their epsilon falls over 50,000 updates, which come after 20,000 steps of a random policy. Ours falls "
            "over 50,000 environment steps, the first 20,000 included: at the first update it is 0.64."
        )
    if reward:
        found.append(
            "What we have of theirs has no score: serial is what the distributed runs are held against. The score "
            "published on Snake is another’s."
        )
    return found


def _method(plan: Plan, rows: Rows) -> str:
    parts = [
        f"Scale {plan.scale}. Servers are headrace serve, and workers and pushers processes of their own with one "
        "thread each. Training runs are headrace.train, with as many environment steps, and as many samples for each, "
        f"in every topology; evaluations are off the clock, and the final score is the mean of {FINAL_EPISODES} greedy "
        "episodes. Each figure is defined in README.md of headrace/studies/downpour."
    ]
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    if len(commits) > 1:
        parts.append(f"Measured with several commits, each row has its own: {', '.join(commits)}.")
    return "".join(f"<p>{escape(part)}</p>" for part in parts)
