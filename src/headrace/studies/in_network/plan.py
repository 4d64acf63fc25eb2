"""The cases of each scale."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.studies.base import Scale
from headrace.studies.in_network.case import VARIANTS, Case, Variant
from headrace.studies.in_network.hosts import Link

__all__ = ["LAN", "Plan", "make_plan"]

LAN = Link(10e9)
"""Between server and learner where all three hosts are in one place."""
_SAMPLERS: tuple[Variant, ...] = ("learner", "server")


@dataclass(frozen=True)
class Plan:
    """What is measured: every case once in each round, so that a slow minute hits all variants alike."""

    cases: tuple[Case, ...]
    rounds: int
    shown: int
    """The number of actors at which the transports and the breakdown are compared."""


def make_plan(scale: Scale) -> Plan:
    """The cases of a scale, also those that need what this machine may not have: hosts, Redis, the games."""
    if scale == "small":
        base = Case("server", "loopback", 2, "synthetic", batch_size=64, seconds=3.0)
        cases = [replace(base, actors=actors, variant=v) for actors in (1, 2, 4, 8) for v in ("redis", "server")]
        cases += [replace(base, variant=variant) for variant in ("redis-ahead", "learner")]
        cases += [replace(base, transport="unix", variant=variant) for variant in _SAMPLERS]
        cases += [replace(base, kind="breakout", variant=variant) for variant in ("redis", "server")]
        cases += [replace(base, transport="hosts", link=LAN, variant=variant) for variant in VARIANTS]
        return Plan((*cases, *_edge(base, delays=(50e-6, 5e-3), rates=(1e9,))), rounds=1, shown=2)
    base = Case("server", "loopback", 4, "synthetic", batch_size=128, seconds=6.0)
    cases = []
    for actors in (1, 2, 4, 8):
        each = replace(base, actors=actors)
        for variant in VARIANTS:
            cases += [
                replace(each, variant=variant),
                replace(each, variant=variant, kind="breakout"),
                replace(each, variant=variant, transport="hosts", link=LAN),
            ]
        cases += [replace(each, variant=variant, transport="unix") for variant in _SAMPLERS]
    return Plan((*cases, *_edge(base, delays=(50e-6, 5e-3, 20e-3, 50e-3), rates=(1e9, 10e9))), rounds=3, shown=4)


def _edge(base: Case, delays: tuple[float, ...], rates: tuple[float, ...]) -> Iterator[Case]:
    """Actors and server at the edge, the learner in the cloud: sampling on this side of the link or on that."""
    for rate in rates:
        for delay in delays:
            for variant in _SAMPLERS:
                yield replace(base, variant=variant, transport="hosts", link=Link(rate, delay))
