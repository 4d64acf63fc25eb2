"""The page of the study: published and measured figures side by side."""

from collections.abc import Iterable, Sequence
from math import isnan, nan

from headrace.report.document import plot_row, share_bar, tile_row
from headrace.report.formats import counted
from headrace.studies.base import Page, Results
from headrace.studies.in_network.case import OUR_VARIANTS, VARIANTS, Case, Variant
from headrace.studies.in_network.comparisons import (
    LATENCIES,
    Comparison,
    Latency,
    Place,
    kernel_peer,
    place_name,
    places,
    shown_places,
    value,
)
from headrace.studies.in_network.figures import decrease
from headrace.studies.in_network.published import published_figures
from headrace.studies.page import bars, figure_text, note, table
from headrace.studies.phases import ACTOR_PHASES
from headrace.studies.plots import Line, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, middle

__all__ = ["present"]

_COLORS: dict[Variant, str] = {"redis": "c7", "redis-ahead": "c2", "learner": "c4", "server": "c1"}
_LEARNER_PARTS = (
    (("train",), "c1"),
    (("pull",), "c3"),
    (("store",), "c4"),
    (("sample",), "c7"),
    (("wait",), "c5"),
    (("priorities", "publish"), "c2"),
    (("transfer", "other"), "c6"),
)
_COMMON = (
    ("updates_per_s", "updates per second"),
    *((f"sampling_{each}_us", f"sampling latency, {each} (µs)") for each in ("mean", "p50", "p99")),
    *((f"access_{each}_us", f"replay access latency, {each} (µs)") for each in ("mean", "p50")),
)
_TRANSPORTS = (
    *_COMMON,
    ("access_p99_us", "replay access latency, p99 (µs)"),
    ("pull_transitions_s", "replay pull throughput (transitions/s)"),
    ("pull_wire_mb_s", "the same, what is on the wire (MB/s)"),
    ("push_p50_us", "push of a chunk, p50 (µs)"),
    ("push_p99_us", "push of a chunk, p99 (µs)"),
    ("parameters_p50_us", "pull of parameters, p50 (µs)"),
    ("bytes_per_transition", "bytes per transition, actor to server"),
    ("communication_total", "share of communication"),
    ("server_cores", "cores that the server kept busy"),
)
_EDGE = (
    *_COMMON,
    ("to_learner_mb_s", "MB/s over the link to the learner"),
    ("from_learner_mb_s", "MB/s over the link from the learner"),
)
_OVER_ACTORS = {
    "sampling_mean_us": "sampling latency, mean (µs)",
    "access_mean_us": "replay access latency, mean (µs)",
    "communication_total": "share of communication",
    "frequency": "transitions per second, each actor",
}
_STATISTICS = ("mean", "p50")
_PUSHED_TRANSITIONS = 3 * 512  # the published 43 MB are as many observations of 4 × 84 × 84 bytes
_BYPASS_FIGURES = {
    "access latency of the shared-memory server": "access_p50_us",
    "replay memory pull throughput": "pull_wire_mb_s",
}
_WHAT_DIFFERS = (
    "The published figures move sampling from the learner into the server's node, a Redis, all else equal. Against "
    "redis, the published baseline, server and client, the place of sampling, and run-ahead differ here; against "
    "learner, our server, the last two do. The last column is run-ahead alone: Redis samples in the learner, in a "
    "thread that keeps batches ready. Redis is not compared over a Unix socket: our client reaches Redis only over "
    "TCP."
)


def present(results: Results) -> Page:
    """The page of these rows."""
    rows, comparisons = results.rows["measurements"], results.comparisons
    sections = (
        ("Published, and here", _published_tables(comparisons, rows)),
        ("Where the time goes", _times(rows)),
        ("More actors", _over_actors(rows)),
        ("Transports", _transports(rows)),
        ("Edge and cloud", _edge(rows)),
        ("Links", _links(results.rows["links"])),
    )
    method = _method(results.plan["measurements"], rows)
    return Page("In-network experience sampling", _tiles(comparisons), sections, [method])


class _Pairs:
    """Comparisons by figure, place and peer."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._found = {(each.figure, each.transport, each.actors, each.kind, each.peer): each for each in comparisons}

    def find(self, latency: Latency, place: Place, peer: str) -> list[Comparison]:
        """Mean and p50 compared with a peer; empty if they were not measured."""
        keys = [(f"{latency.name}_{statistic}_us", *place, peer) for statistic in _STATISTICS]
        return [self._found[key] for key in keys if key in self._found]

    def ahead(self, latency: Latency, place: Place) -> list[float]:
        """The percentages by which run-ahead alone lowers mean and p50 of the Redis baseline."""
        both = zip(self.find(latency, place, "redis"), self.find(latency, place, "redis-ahead"), strict=False)
        return [decrease(redis.peer_value or nan, ahead.peer_value or nan) for redis, ahead in both]


def _tiles(comparisons: Sequence[Comparison]) -> str:
    """The requirements, each with its worst measured value."""
    pairs = _Pairs(comparisons)
    here = list(dict.fromkeys((each.transport, each.actors, each.kind) for each in comparisons))
    shown = []
    for latency, name in zip(LATENCIES, ("sampling latency", "replay access latency"), strict=True):
        found = {place: both for place in here if (both := pairs.find(latency, place, "redis"))}
        if not found:
            continue
        place, worst = min(found.items(), key=lambda each: min(map(_below, each[1])))
        ahead = pairs.ahead(latency, place)
        text = (
            f"{name}, mean and p50, against the Redis baseline over {place_name(place)}, where it gains least "
            f"(required: −{latency.required:g} % of both)"
        )
        if ahead:
            text += f". Redis with run-ahead alone: {_changes(ahead)}"
        shown.append((_changes(map(_below, worst)), text, all(each.verdict == "holds" for each in worst)))
    sizes = [each for each in comparisons if each.figure == "bytes_per_transition"]
    if sizes:
        most = max(sizes, key=lambda each: each.ours)
        text = f"bytes for each transition, actor to server (required {most.required}; raw 56,448)"
        shown.append((figure_text(most.ours, 4), text, most.verdict == "holds"))
    return tile_row(shown)


def _published_tables(comparisons: Sequence[Comparison], rows: Rows) -> str:
    """Published latencies next to ours, by transport; then the other published figures."""
    published = published_figures()
    pairs, here = _Pairs(comparisons), [place for place in shown_places(rows) if place[2] == "synthetic"]
    header = ("", "published", "ours against redis", "ours against learner", "redis-ahead against redis")
    latencies = ""
    for latency in LATENCIES:
        lines = []
        for place in here:
            sides = [map(_below, pairs.find(latency, place, peer)) for peer in ("redis", "learner")]
            cells = [_changes(side, named=True) for side in (*sides, pairs.ahead(latency, place))]
            lines.append((place_name(place), str(published[latency.published]), *cells))
        latencies += table(header, lines, latency.published)
    latencies += note(_WHAT_DIFFERS)
    others = [
        (quantity, str(figure), _here(quantity, rows, comparisons))
        for quantity, figure in published.items()
        if quantity not in [latency.published for latency in LATENCIES]
    ]
    return latencies + table(("", "published", "here"), others)


def _here(quantity: str, rows: Rows, comparisons: Sequence[Comparison]) -> str:
    """Our figures for the published ones other than latencies: over loopback, or bypass against loopback."""
    local = [place for place in places(rows) if place[0] == "loopback"]
    if quantity.startswith("communication share"):
        ends = sorted((place for place in local if place[2] == "synthetic"), key=lambda place: place[1])
        ends = [ends[0], ends[-1]] if len(ends) > 1 else ends
        return "; ".join(
            f"{variant}: " + " to ".join(_percent(value(rows, variant, end, "communication_total")) for end in ends)
            for variant in ("redis", "server")
        )
    shown = [place for place in shown_places(rows) if place in local]
    if quantity.startswith("parameters pulled"):
        return "; ".join(f"{figure_text(value(rows, 'server', place, 'parameters_mb'))} MB" for place in shown[:1])
    if quantity.startswith("experiences pushed"):
        return "; ".join(
            f"{figure_text(_PUSHED_TRANSITIONS * value(rows, 'server', place, 'bytes_per_transition') / 1e6)} MB "
            f"({place[2]})"
            for place in shown
        )
    name, compared, _ = quantity.partition(" (kernel bypass against kernel)")
    return _bypassing(_BYPASS_FIGURES[name], comparisons) if compared else ""


def _bypassing(figure: str, comparisons: Sequence[Comparison]) -> str:
    """How a figure changes from the kernel's TCP to user-space networking, for each variant and number of actors."""
    texts = []
    for variant in OUR_VARIANTS:
        found = [each for each in comparisons if (each.figure, each.peer) == (figure, kernel_peer(variant))]
        texts += [f"{variant}, {counted(each.actors, 'actor')}: {_change(_below(each))}" for each in found]
    return "; ".join(texts) or "–"


def _below(comparison: Comparison) -> float:
    return nan if comparison.decrease_percent is None else comparison.decrease_percent


def _changes(decreases: Iterable[float], *, named: bool = False) -> str:
    """Mean and p50: "−84.7 %, −88.0 %"; an en dash if they were not measured."""
    texts = [_change(below) for below in decreases]
    if named:
        texts = [f"{statistic} {text}" for statistic, text in zip(_STATISTICS, texts, strict=False)]
    return ", ".join(texts) or "–"


def _change(below: float) -> str:
    return "–" if isnan(below) else f"{'−' if below >= 0 else '+'}{abs(below):.1f} %"


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.1%}"


def _times(rows: Rows) -> str:
    """The actor's bar above the learner's, for each variant."""
    parts = []
    for place in shown_places(rows):
        for variant, title in VARIANTS.items():
            if isnan(value(rows, variant, place, "updates_per_s")):
                continue
            actor = [
                (phase, f"c{number}", value(rows, variant, place, f"actor_{phase}"))
                for number, phase in enumerate(ACTOR_PHASES, 1)
            ]
            learner = [
                (", ".join(phases), color, sum(value(rows, variant, place, f"learner_{phase}") for phase in phases))
                for phases, color in _LEARNER_PARTS
            ]
            parts.append((f"{title} · {place_name(place)}", share_bar(actor) + share_bar(learner)))
    return note("Actors above, learner below.") + bars(parts)


def _over_actors(rows: Rows) -> str:
    """Plots over the number of actors, for the transport and kind with the most measurements."""
    series: dict[tuple[str, str], list[int]] = {}
    for transport, actors, kind in places(rows):
        series.setdefault((transport, kind), []).append(actors)
    plots = []
    for (transport, kind), counts in series.items():
        if len(counts) < 2:
            continue
        counts.sort()

        def over(variant: Variant, figure: str, *, dashed: bool = False) -> Line:
            values = [value(rows, variant, (transport, n, kind), figure) for n in counts]  # noqa: B023
            return Line(values, _COLORS[variant], dashed)

        lines: dict[str, dict[str, Line]] = {
            figure: {variant: over(variant, figure) for variant in _COLORS}
            for figure in ("sampling_mean_us", "access_mean_us", "communication_total")
        }
        lines["frequency"] = {
            "Redis, ideal": over("redis", "ideal_frames_s", dashed=True),
            "Redis, actual": over("redis", "actual_frames_s"),
            "ours, ideal": over("server", "ideal_frames_s", dashed=True),
            "ours, actual": over("server", "actual_frames_s"),
        }
        axis = f"{kind} actors, {place_name((transport, 2, kind)).partition(',')[0]}"
        for figure, found in lines.items():
            there = {name: line for name, line in found.items() if not all(map(isnan, line.values))}
            label, logarithmic = _OVER_ACTORS[figure], figure.endswith("_us")
            name = f"{figure}-{transport}-{kind}"
            plots.append(draw_lines(name, axis, label, counts, there, logarithmic=logarithmic))
    return plot_row(plots) if plots else ""


def _transports(rows: Rows) -> str:
    tables = []
    for place in shown_places(rows):
        variants = [variant for variant in VARIANTS if not isnan(value(rows, variant, place, "updates_per_s"))]
        header = ["", *variants]
        lines = [
            (label, *(figure_text(value(rows, variant, place, figure)) for variant in variants))
            for figure, label in _TRANSPORTS
        ]
        tables.append(table(header, lines, place_name(place)))
    return "".join(tables)


def _edge(rows: Rows) -> str:
    """Sampling on either side of a long link."""
    far = [row for row in rows if row["link_delay_us"]]
    tables = []
    for (rate, delay), these in grouped(far, "link_gbit_s", "link_delay_us"):
        sides = [chosen(these, variant=variant) for variant in ("learner", "server")]
        lines = [(label, *(figure_text(middle(side, figure)) for side in sides)) for figure, label in _EDGE]
        caption = f"{rate:g} Gbit/s, {delay:g} µs one way"
        tables.append(table(("", "sampling in the cloud", "sampling in the edge server"), lines, caption))
    intro = note(
        "Actors and server at the edge, the learner in the cloud. If the cloud samples, all experience crosses the "
        "link once; if the edge does, batches do."
    )
    return intro + "".join(tables) if tables else ""


def _links(links: Rows) -> str:
    header = ("as set", "round trip, p50 (µs)", "round trip, p99 (µs)", "Gbit/s reached")
    lines = [
        (
            f"{link['rate_set_gbit_s']:g} Gbit/s, {link['round_trip_set_us']:g} µs there and back",
            *(figure_text(link[name]) for name in ("round_trip_p50_us", "round_trip_p99_us", "rate_reached_gbit_s")),
        )
        for link in links
    ]
    return table(header, lines)


def _method(cases: Sequence[Case], rows: Rows) -> str:
    case, rounds = cases[0], len({case.round for case in cases})
    clients = distinct([row for row in rows if row["redis_client"]], "redis_client")
    redis = f"Redis is reached with {' or '.join(clients)}. " if clients else ""
    return (
        f"{rounds} round{'s' if rounds > 1 else ''} of {len(cases) // rounds} cases in turn, {case.seconds:g} s each "
        "after a warm-up; medians over rounds. The learner makes DQN updates of a dueling Nature network on the CPU, "
        f"one thread, batch {case.batch_size}. Synthetic actors push chunks of 50 transitions at 139 frames per "
        f"second. {redis}Each figure is defined in README.md of headrace/studies/in_network."
    )
