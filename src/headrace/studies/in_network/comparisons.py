"""What the rows of a study say beside each other, beside what was published, and beside what is required."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.studies.in_network.figures import decrease, median
from headrace.studies.published import Published

__all__ = ["Comparison", "beside", "compare", "find", "places", "value"]

_SAMPLING = "sampling latency of the learner (sampling in the node against in the learner)"
_ACCESS = "replay memory access latency (sampling in the node against in the learner)"
_REQUIRED = {"sampling_p50_us": 80.0, "access_p50_us": 60.0}  # per cent below the Redis baseline
_LARGEST_TRANSITION_BYTES = 8500.0
_PEERS = ("redis", "redis-ahead", "learner")


class Comparison(NamedTuple):
    """Sampling in the server beside another variant, all else equal; `decrease_percent` is how far it is below."""

    figure: str
    transport: str
    actors: int
    kind: str
    peer: str
    peer_value: float | None
    ours: float
    decrease_percent: float | None
    published: str
    required: str
    verdict: str


def compare(rows: Sequence[Mapping[str, Any]], published: Mapping[str, Published]) -> list[Comparison]:
    """Every figure that has a peer, of each place, and the bytes per transition; medians over rounds."""
    comparisons = []
    for place in places(rows):
        for figure, quantity in (("sampling", _SAMPLING), ("access", _ACCESS)):
            for name in (f"{figure}_p50_us", f"{figure}_p99_us"):
                comparisons += [_beside(rows, name, place, peer, str(published[quantity])) for peer in _PEERS]
        comparisons.append(_size(rows, place))
    return [comparison for comparison in comparisons if comparison is not None]


def beside(quantity: str) -> str:
    """The figure that stands for a published latency; empty for other quantities."""
    return {_SAMPLING: "sampling_p50_us", _ACCESS: "access_p50_us"}.get(quantity, "")


def places(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, str]]:
    """Transport, actors and kind of all cases without a long link, in their order."""
    return list(dict.fromkeys(_place(row) for row in rows if not row["link_delay_us"]))


def find(rows: Iterable[Mapping[str, Any]], variant: str, place: tuple[str, int, str]) -> list[Mapping[str, Any]]:
    """The rows of a variant, one for each round, without a long link.

    Our client reaches Redis over TCP only: over Unix sockets, the baseline is that over loopback.
    """
    transport, actors, kind = place
    if transport == "unix" and variant.startswith("redis"):
        transport = "loopback"
    wanted = (transport, actors, kind)
    return [row for row in rows if row["variant"] == variant and not row["link_delay_us"] and _place(row) == wanted]


def value(rows: Iterable[Mapping[str, Any]], variant: str, place: tuple[str, int, str], figure: str) -> float:
    """The median over rounds; nan where it was not measured."""
    return median([row[figure] for row in find(rows, variant, place)])


def _place(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return row["transport"], row["actors"], row["kind"]


def _beside(
    rows: Sequence[Mapping[str, Any]], figure: str, place: tuple[str, int, str], peer: str, published: str
) -> Comparison | None:
    before, after = value(rows, peer, place, figure), value(rows, "server", place, figure)
    if not (before > 0 and after > 0):  # nan, too
        return None
    below = decrease(before, after)
    least = _REQUIRED.get(figure) if peer == "redis" else None
    required, verdict = ("", "") if least is None else (f">= {least:g}", "holds" if below >= least else "MISSED")
    return Comparison(figure, *place, peer, before, after, below, published, required, verdict)


def _size(rows: Sequence[Mapping[str, Any]], place: tuple[str, int, str]) -> Comparison | None:
    size = value(rows, "server", place, "bytes_per_transition")
    if not size > 0:
        return None
    verdict = "holds" if size <= _LARGEST_TRANSITION_BYTES else "MISSED"
    required = f"<= {_LARGEST_TRANSITION_BYTES:g}"
    return Comparison("bytes_per_transition", *place, "", None, size, None, "", required, verdict)
