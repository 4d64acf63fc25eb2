"""Compares the rows of the study with each other, with the published and with the required figures."""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from headrace.report.formats import counted
from headrace.studies.comparisons import judge_least, judge_most
from headrace.studies.in_network.case import OUR_VARIANTS, Variant
from headrace.studies.in_network.figures import decrease
from headrace.studies.sheet import Row, Rows, read_published
from headrace.studies.statistics import chosen, distinct, middle

__all__ = [
    "LATENCIES", "Comparison", "Latency", "Place", "compare", "kernel_peer", "place_name", "places",
    "published_figures", "shown_places", "value",
]  # fmt: skip

Place = tuple[str, int, str]
"""Transport, actors, kind."""


class Latency(NamedTuple):
    """A published latency: our columns NAME_mean_us, NAME_p50_us, NAME_p99_us, and the requirement on the first two."""

    name: str
    title: str
    published: str
    required: float
    """Percent below the Redis baseline."""


_PLACES = "(sampling in the node against in the learner)"
LATENCIES = (
    Latency("sampling", "sampling latency", f"sampling latency of the learner {_PLACES}", 80.0),
    Latency("access", "replay access latency", f"replay memory access latency {_PLACES}", 60.0),
)
_LARGEST_TRANSITION_BYTES = 8500.0
_PEERS: dict[Variant, str] = {
    "redis": "server and its client, place of sampling, run-ahead",
    "redis-ahead": "server and its client, place of sampling",
    "learner": "place of sampling, run-ahead",
}
"""The differences of sampling in our server from each variant."""
_KERNEL, _BYPASS = "loopback", "memif"
_BYPASS_FIGURES: dict[str, tuple[str, float | None]] = {
    "access_p50_us": ("access latency of the shared-memory server (kernel bypass against kernel)", 50.0),
    "sampling_p50_us": ("", 50.0),
    "access_p99_us": ("", None),
    "sampling_p99_us": ("", None),
    "pull_wire_mb_s": ("replay memory pull throughput (kernel bypass against kernel)", None),
    "parameters_p50_us": ("", 100 * (1 - 1 / 1.3)),
}
"""For user-space networking compared with the kernel's: the published figure, and the least decrease in percent. For
the pull of 13 MB of parameters, 1.3 times the throughput is required."""
_PUBLISHED_PEERS = ("redis", "learner")


class Comparison(NamedTuple):
    """Sampling in the server compared with another variant, or a variant over memif with the same one over TCP.

    `decrease_percent` is the difference. `published` is the published system's gain: from moving sampling into the
    server's node, shown for `redis`, the published baseline, and for `learner`, in which only sampling differs; or from
    bypassing the kernel.
    """

    figure: str
    transport: str
    actors: int
    kind: str
    peer: str
    differs_in: str
    peer_value: float | None
    ours: float
    decrease_percent: float | None
    published: str
    required: str
    verdict: str

    @property
    def place(self) -> Place:
        """Where both were measured."""
        return self.transport, self.actors, self.kind


class Published(NamedTuple):
    """One published figure, a range."""

    quantity: str
    low: float
    high: float
    direction: str
    """"decrease", "increase" and "share" in percent, "size" in MB."""

    def __str__(self) -> str:
        sign = {"decrease": "−", "increase": "+"}.get(self.direction, "")
        unit = "MB" if self.direction == "size" else "%"
        low, high = f"{sign}{self.low:g}", f"{sign}{self.high:g}"
        return f"{low} {unit}" if self.low == self.high else f"{low} to {high} {unit}"


def published_figures() -> dict[str, Published]:
    """The published figures, by quantity."""
    rows = read_published("in_network", "published.csv")
    fields = ("quantity", "low_percent", "high_percent", "direction")
    return {row["quantity"]: Published(*(row[field] for field in fields)) for row in rows}


def compare(rows: Rows) -> list[Comparison]:
    """Every figure with a peer, for each place, and the bytes per transition; medians over rounds."""
    published = published_figures()
    found = []
    for place in places(rows):
        for latency, statistic, peer in product(LATENCIES, ("mean", "p50", "p99"), _PEERS):
            figure, judged = f"{latency.name}_{statistic}_us", statistic != "p99"
            said = str(published[latency.published]) if judged and peer in _PUBLISHED_PEERS else ""
            sides = (value(rows, variant, place, figure) for variant in (peer, "server"))
            least = latency.required if judged and peer == "redis" else None
            found.append(_compared(figure, place, peer, _PEERS[peer], sides, said, least))
        found.append(_size(rows, place))
        for variant, (figure, (quantity, least)) in product(OUR_VARIANTS, _BYPASS_FIGURES.items()):
            if place[0] == _BYPASS:
                said = str(published[quantity]) if quantity else ""
                sides = (value(rows, variant, where, figure) for where in ((_KERNEL, *place[1:]), place))
                found.append(_compared(figure, place, kernel_peer(variant), "transport", sides, said, least))
    return [comparison for comparison in found if comparison is not None]


def places(rows: Rows) -> list[Place]:
    """Transport, actors and kind of all cases without a long link, in order."""
    return distinct(_near(rows), "transport", "actors", "kind")


def shown_places(rows: Rows) -> list[Place]:
    """The places that are compared in detail: those with the number of actors that most rows have."""
    counts = [row["actors"] for row in rows]
    shown = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
    return [place for place in places(rows) if place[1] == shown]


def value(rows: Rows, variant: str, place: Place, figure: str) -> float:
    """The median over rounds, without a long link; nan if it was not measured."""
    transport, actors, kind = place
    return middle(chosen(_near(rows), variant=variant, transport=transport, actors=actors, kind=kind), figure)


def kernel_peer(variant: Variant) -> str:
    """The name of a variant over the kernel's TCP, with which the same one over memif is compared."""
    return f"{variant}, {_KERNEL}"


def place_name(place: Place) -> str:
    """The place for readers: TCP loopback, 2 synthetic actors."""
    transport, actors, kind = place
    names = {"unix": "Unix socket", "loopback": "TCP loopback", "hosts": "three hosts", "memif": "bypass (memif)"}
    over = names[transport]
    return f"{over}, {counted(actors, f'{kind} actor')}"


def _near(rows: Iterable[Row]) -> Rows:
    return [row for row in rows if not row["link_delay_us"]]


def _compared(
    figure: str, place: Place, peer: str, differs_in: str, sides: Iterable[float], published: str, least: float | None
) -> Comparison | None:
    """A peer's figure and ours, the two `sides`; None if one of them was not measured."""
    before, after = sides
    if not (before > 0 and after > 0):  # nan too
        return None
    below = decrease(before, after)
    judged = judge_least(below, least, "" if least is None else f"{least:.3g}")
    return Comparison(figure, *place, peer, differs_in, before, after, below, published, *judged)


def _size(rows: Rows, place: Place) -> Comparison | None:
    size = value(rows, "server", place, "bytes_per_transition")
    if not size > 0:
        return None
    judged = judge_most(size, _LARGEST_TRANSITION_BYTES)
    return Comparison("bytes_per_transition", *place, "", "", None, size, None, "", *judged)
