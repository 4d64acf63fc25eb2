"""The tables and plots of the study: published and measured figures side by side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan

from headrace.report.document import plot_row, share_bar, tile_row
from headrace.report.formats import counted
from headrace.studies import page
from headrace.studies.base import Results
from headrace.studies.in_network.case import LEARNER_PHASES, OUR_VARIANTS, VARIANTS, Variant
from headrace.studies.in_network.comparisons import (
    LATENCIES,
    Comparison,
    Latency,
    Place,
    kernel_peer,
    place_name,
    places,
    published_figures,
    shown_places,
    value,
)
from headrace.studies.in_network.figures import decrease
from headrace.studies.plots import Line, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, middle
from headrace.studies.training import ACTOR_PHASES

__all__ = ["blocks"]

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
_COMMON = {
    "updates_per_s": "updates per second",
    **{f"sampling_{each}_us": f"sampling latency, {each} (µs)" for each in ("mean", "p50", "p99")},
    **{f"access_{each}_us": f"replay access latency, {each} (µs)" for each in ("mean", "p50")},
}
_TRANSPORTS = _COMMON | {
    "access_p99_us": "replay access latency, p99 (µs)",
    "pull_transitions_s": "replay pull throughput (transitions/s)",
    "pull_wire_mb_s": "the same, what is on the wire (MB/s)",
    "push_p50_us": "push of a chunk, p50 (µs)",
    "push_p99_us": "push of a chunk, p99 (µs)",
    "parameters_p50_us": "pull of parameters, p50 (µs)",
    "bytes_per_transition": "bytes per transition, actor to server",
    "communication_total": "share of communication",
    "server_cores": "cores that the server kept busy",
}
_EDGE = _COMMON | {
    "to_learner_mb_s": "MB/s over the link to the learner",
    "from_learner_mb_s": "MB/s over the link from the learner",
}
_OVER_ACTORS = {
    "sampling_mean_us": "sampling latency, mean (µs)",
    "access_mean_us": "replay access latency, mean (µs)",
    "communication_total": "share of communication",
}
_FREQUENCY = "transitions per second, each actor"
_STATISTICS = ("mean", "p50")
_PUSHED_TRANSITIONS = 3 * 512  # the published 43 MB are as many observations of 4 × 84 × 84 bytes
_BYPASS_FIGURES = {
    "access latency of the shared-memory server": "access_p50_us",
    "replay memory pull throughput": "pull_wire_mb_s",
}


def blocks(results: Results) -> Mapping[str, str]:
    """The blocks of page.md."""
    rows, comparisons, cases = results.rows["measurements"], results.comparisons, results.plan["measurements"]
    rounds = len({case.round for case in cases})
    clients = distinct([row for row in rows if row["redis_client"]], "redis_client")
    return {
        "tiles": _tiles(comparisons),
        "latencies": _latency_tables(comparisons, rows),
        "others": _other_figures(comparisons, rows),
        "times": page.bars(_times(rows)),
        "over_actors": plot_row(_over_actors(rows)) if rows else "",
        "transports": "".join(_transports(rows)),
        "edge": "".join(_edge(rows)),
        "links": _links(results.rows["links"]),
        "rounds": counted(rounds, "round"),
        "cases": str(len(cases) // rounds),
        "seconds": f"{cases[0].seconds:g}",
        "batch_size": str(cases[0].batch_size),
        "redis": f"Redis is reached with {' or '.join(clients)}. " if clients else "",
    }


def _of(comparisons: Sequence[Comparison], latency: Latency, place: Place, peer: str) -> list[Comparison]:
    """Mean and p50 compared with a peer; empty if they were not measured."""
    figures = [f"{latency.name}_{statistic}_us" for statistic in _STATISTICS]
    return [each for each in comparisons if each.figure in figures and each.peer == peer and each.place == place]


def _ahead(comparisons: Sequence[Comparison], latency: Latency, place: Place) -> list[float]:
    """The percentages by which run-ahead alone lowers mean and p50 of the Redis baseline."""
    sides = (_of(comparisons, latency, place, peer) for peer in ("redis", "redis-ahead"))
    return [decrease(redis.peer_value or nan, ahead.peer_value or nan) for redis, ahead in zip(*sides, strict=False)]


def _tiles(comparisons: Sequence[Comparison]) -> str:
    """The requirements, each with its worst measured value."""
    shown = []
    for latency in LATENCIES:
        found = [
            _of(comparisons, latency, place, "redis") for place in dict.fromkeys(each.place for each in comparisons)
        ]
        worst = min(filter(None, found), key=lambda both: min(map(_below, both)), default=None)
        if worst is None:
            continue
        place = worst[0].place
        ahead = _ahead(comparisons, latency, place)
        text = (
            f"{latency.title}, mean and p50, against the Redis baseline over {place_name(place)}, where it gains least "
            f"(required: −{latency.required:g} % of both)"
        ) + (f". Redis with run-ahead alone: {_changes(ahead)}" if ahead else "")
        shown.append((_changes(map(_below, worst)), text, all(each.verdict == "holds" for each in worst)))
    sizes = [each for each in comparisons if each.figure == "bytes_per_transition"]
    for most in sorted(sizes, key=lambda each: each.ours)[-1:]:
        text = f"bytes for each transition, actor to server (required {most.required}; raw 56,448)"
        shown.append((page.figure_text(most.ours, 4), text, most.verdict == "holds"))
    return tile_row(shown)


def _latency_tables(comparisons: Sequence[Comparison], rows: Rows) -> str:
    """Published latencies next to ours, by transport."""
    published = published_figures()
    tables = ""
    for latency in LATENCIES:
        lines = []
        for place in shown_places(rows):
            if place[2] == "synthetic":
                sides = [map(_below, _of(comparisons, latency, place, peer)) for peer in ("redis", "learner")]
                found = [_changes(side, named=True) for side in (*sides, _ahead(comparisons, latency, place))]
                lines.append((place_name(place), str(published[latency.published]), *found))
        header = ("", "published", "ours against redis", "ours against learner", "redis-ahead against redis")
        tables += page.table(header, lines, latency.published)
    return tables


def _other_figures(comparisons: Sequence[Comparison], rows: Rows) -> str:
    """The published figures other than latencies, and ours: over loopback, or bypass against loopback."""
    local = [place for place in places(rows) if place[0] == "loopback"]
    shown = [place for place in shown_places(rows) if place in local]
    synthetic = sorted((place for place in local if place[2] == "synthetic"), key=lambda place: place[1])
    pushed = [
        (_PUSHED_TRANSITIONS * value(rows, "server", place, "bytes_per_transition") / 1e6, place[2]) for place in shown
    ]
    ours = {
        "communication share": "; ".join(_communication(rows, variant, synthetic) for variant in ("redis", "server")),
        "parameters pulled": "; ".join(
            f"{page.figure_text(value(rows, 'server', place, 'parameters_mb'))} MB" for place in shown[:1]
        ),
        "experiences pushed": "; ".join(f"{page.figure_text(size)} MB ({kind})" for size, kind in pushed),
        **{quantity: _bypassing(figure, comparisons) for quantity, figure in _BYPASS_FIGURES.items()},
    }
    latencies = [latency.published for latency in LATENCIES]
    lines = [
        (quantity, str(figure), next((text for name, text in ours.items() if quantity.startswith(name)), ""))
        for quantity, figure in published_figures().items()
        if quantity not in latencies
    ]
    return page.table(("", "published", "here"), lines)


def _communication(rows: Rows, variant: str, ends: list[Place]) -> str:
    """The share of communication with the fewest and the most actors."""
    shares = (value(rows, variant, end, "communication_total") for end in dict.fromkeys(ends[:1] + ends[-1:]))
    return f"{variant}: " + " to ".join("–" if isnan(share) else f"{share:.1%}" for share in shares)


def _bypassing(figure: str, comparisons: Sequence[Comparison]) -> str:
    """How a figure changes from the kernel's TCP to user-space networking, for each variant and number of actors."""
    texts = [
        f"{variant}, {counted(each.actors, 'actor')}: {_change(_below(each))}"
        for variant in OUR_VARIANTS
        for each in comparisons
        if (each.figure, each.peer) == (figure, kernel_peer(variant))
    ]
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


def _measured(rows: Rows, place: Place) -> list[Variant]:
    """The variants that were measured there."""
    return [variant for variant in VARIANTS if not isnan(value(rows, variant, place, "updates_per_s"))]


def _times(rows: Rows) -> Iterator[tuple[str, str]]:
    """The actor's bar above the learner's, for each variant."""
    for place in shown_places(rows):
        for variant in _measured(rows, place):
            actor, learner = (
                {phase: value(rows, variant, place, f"{side}_{phase}") for phase in phases}
                for side, phases in (("actor", ACTOR_PHASES), ("learner", LEARNER_PHASES))
            )
            above = [(phase, f"c{number}", share) for number, (phase, share) in enumerate(actor.items(), 1)]
            below = [
                (", ".join(phases), color, sum(learner[phase] for phase in phases)) for phases, color in _LEARNER_PARTS
            ]
            yield f"{VARIANTS[variant]} · {place_name(place)}", share_bar(above) + share_bar(below)


def _over_actors(rows: Rows) -> Iterator[str]:
    """Plots over the number of actors, for each transport and kind with several numbers."""
    here = places(rows)
    for transport, kind in dict.fromkeys((transport, kind) for transport, _, kind in here):
        counts = sorted(place[1] for place in here if (place[0], place[2]) == (transport, kind))
        if len(counts) < 2:
            continue

        def over(variant: Variant, figure: str, *, dashed: bool = False) -> Line:
            values = [value(rows, variant, (transport, n, kind), figure) for n in counts]  # noqa: B023
            return Line(values, _COLORS[variant], dashed)

        lines: dict[str, dict[str, Line]] = {
            figure: {variant: over(variant, figure) for variant in _COLORS} for figure in _OVER_ACTORS
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
            label, name = _OVER_ACTORS.get(figure, _FREQUENCY), f"{figure}-{transport}-{kind}"
            yield draw_lines(name, axis, label, counts, there, logarithmic=figure.endswith("_us"))


def _transports(rows: Rows) -> Iterator[str]:
    for place in shown_places(rows):
        variants = _measured(rows, place)
        lines = [
            (label, *(value(rows, variant, place, figure) for variant in variants))
            for figure, label in _TRANSPORTS.items()
        ]
        yield page.table(("", *variants), lines, place_name(place))


def _edge(rows: Rows) -> Iterator[str]:
    """Sampling on either side of a long link."""
    far = [row for row in rows if row["link_delay_us"]]
    for (rate, delay), these in grouped(far, "link_gbit_s", "link_delay_us"):
        sides = [chosen(these, variant=variant) for variant in ("learner", "server")]
        lines = [(label, *(middle(side, figure) for side in sides)) for figure, label in _EDGE.items()]
        header = ("", "sampling in the cloud", "sampling in the edge server")
        yield page.table(header, lines, f"{rate:g} Gbit/s, {delay:g} µs one way")


def _links(links: Rows) -> str:
    header = ("as set", "round trip, p50 (µs)", "round trip, p99 (µs)", "Gbit/s reached")
    lines = [
        (
            f"{link['rate_set_gbit_s']:g} Gbit/s, {link['round_trip_set_us']:g} µs there and back",
            *(link[name] for name in ("round_trip_p50_us", "round_trip_p99_us", "rate_reached_gbit_s")),
        )
        for link in links
    ]
    return page.table(header, lines)
