"""The top of the page: what was required and what was published, beside what was measured here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isnan, nan
from typing import Any

from headrace.report.document import tile_row
from headrace.studies.in_network.comparisons import LATENCIES, Comparison, Latency, Place, place_name, places, value
from headrace.studies.in_network.figures import decrease
from headrace.studies.in_network.plan import Plan
from headrace.studies.page import figure_text, table
from headrace.studies.published import Published

__all__ = ["published_tables", "tiles"]

Rows = Sequence[Mapping[str, Any]]

_STATISTICS = ("mean", "p50")
_PUSHED_TRANSITIONS = 3 * 512  # the published 43 MB are as many observations of 4 × 84 × 84 bytes
_UNMEASURED = "– (Headrace has no poll-mode loop)"
_WHAT_DIFFERS = (
    "The published figures move sampling from the learner into the server's node, all else equal; the server was a "
    "Redis. Against redis, the published baseline, everything differs here: server and client, the place of sampling, "
    "and run-ahead. Against learner, our own server, the place of sampling and run-ahead do. The last column has "
    "run-ahead alone: Redis still samples in the learner, but in a thread that keeps batches ready. Over a Unix socket "
    "there is no Redis beside ours, for our client reaches Redis over TCP alone."
)


class _Beside:
    """Comparisons by what they compare."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._found = {(each.figure, each.transport, each.actors, each.kind, each.peer): each for each in comparisons}

    def find(self, latency: Latency, place: Place, peer: str) -> list[Comparison]:
        """Mean and p50 beside a peer; empty where it was not measured."""
        keys = [(f"{latency.name}_{statistic}_us", *place, peer) for statistic in _STATISTICS]
        return [self._found[key] for key in keys if key in self._found]

    def ahead(self, latency: Latency, place: Place) -> list[float]:
        """By how many per cent run-ahead alone lowers mean and p50 of the Redis baseline."""
        both = zip(self.find(latency, place, "redis"), self.find(latency, place, "redis-ahead"), strict=False)
        return [decrease(redis.peer_value or nan, ahead.peer_value or nan) for redis, ahead in both]


def tiles(comparisons: Sequence[Comparison]) -> str:
    """The requirements, each where it is met worst, of all that was measured."""
    beside = _Beside(comparisons)
    here = list(dict.fromkeys((each.transport, each.actors, each.kind) for each in comparisons))
    shown = []
    for latency, name in zip(LATENCIES, ("sampling latency", "replay access latency"), strict=True):
        found = [both for place in here if (both := beside.find(latency, place, "redis"))]
        if not found:
            continue
        worst = min(found, key=lambda both: min(_below(each) for each in both))
        place = worst[0].transport, worst[0].actors, worst[0].kind
        ahead = beside.ahead(latency, place)
        note = (
            f"{name}, mean and p50, against the Redis baseline over {place_name(place)}, where it gains least "
            f"(required: −{latency.required:g} % of both)"
        )
        if ahead:
            note += f". Redis with run-ahead alone: {_changes(ahead)}"
        shown.append((_changes(map(_below, worst)), note, all(each.verdict == "holds" for each in worst)))
    sizes = [each for each in comparisons if each.figure == "bytes_per_transition"]
    if sizes:
        most = max(sizes, key=lambda each: each.ours)
        note = f"bytes for each transition, actor to server (required {most.required}; raw 56,448)"
        shown.append((figure_text(most.ours, 4), note, most.verdict == "holds"))
    return tile_row(shown)


def published_tables(
    published: Mapping[str, Published], comparisons: Sequence[Comparison], rows: Rows, plan: Plan
) -> str:
    """Published latencies beside ours, by transport; then what else was published."""
    beside, here = _Beside(comparisons), _shown(rows, plan)
    header = ("", "published", "ours against redis", "ours against learner", "redis-ahead against redis")
    latencies = ""
    for latency in LATENCIES:
        lines = []
        for place in here:
            sides = [map(_below, beside.find(latency, place, peer)) for peer in ("redis", "learner")]
            cells = [_changes(side, named=True) for side in (*sides, beside.ahead(latency, place))]
            lines.append((place_name(place), str(published[latency.published]), *cells))
        latencies += table(header, lines, latency.published)
    latencies += f'<p class="soft">{escape(_WHAT_DIFFERS)}</p>'
    others = [
        (quantity, str(figure), _here(quantity, rows, plan))
        for quantity, figure in published.items()
        if quantity not in [latency.published for latency in LATENCIES]
    ]
    return latencies + table(("", "published", "here"), others)


def _here(quantity: str, rows: Rows, plan: Plan) -> str:
    """What was measured here, over loopback, of what was published beside latencies."""
    local = [place for place in places(rows) if place[0] == "loopback"]
    if quantity.startswith("communication share"):
        ends = sorted((place for place in local if place[2] == "synthetic"), key=lambda place: place[1])
        ends = [ends[0], ends[-1]] if len(ends) > 1 else ends
        return "; ".join(
            f"{variant}: " + " to ".join(_percent(value(rows, variant, end, "communication_total")) for end in ends)
            for variant in ("redis", "server")
        )
    shown = [place for place in local if place[1] == plan.shown]
    if quantity.startswith("parameters pulled"):
        return "; ".join(f"{figure_text(value(rows, 'server', place, 'parameters_mb'))} MB" for place in shown[:1])
    if quantity.startswith("experiences pushed"):
        return "; ".join(
            f"{figure_text(_PUSHED_TRANSITIONS * value(rows, 'server', place, 'bytes_per_transition') / 1e6)} MB "
            f"({place[2]})"
            for place in shown
        )
    return _UNMEASURED


def _shown(rows: Rows, plan: Plan) -> list[Place]:
    return [place for place in places(rows) if place[1:] == (plan.shown, "synthetic")]


def _below(comparison: Comparison) -> float:
    return nan if comparison.decrease_percent is None else comparison.decrease_percent


def _changes(decreases: Iterable[float], *, named: bool = False) -> str:
    """Mean and p50: "−84.7 %, −88.0 %"; an en dash where they were not measured."""
    texts = [_change(below) for below in decreases]
    if named:
        texts = [f"{statistic} {text}" for statistic, text in zip(_STATISTICS, texts, strict=False)]
    return ", ".join(texts) or "–"


def _change(below: float) -> str:
    return "–" if isnan(below) else f"{'−' if below >= 0 else '+'}{abs(below):.1f} %"


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.1%}"
