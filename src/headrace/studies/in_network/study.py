"""`headrace study in-network`."""

import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from headrace.errors import ConfigError, HeadraceError
from headrace.servers.polling import find_polling_server
from headrace.studies.base import Measured, Options, Part, Plan, Say, Scale, Study, leave_out
from headrace.studies.in_network.case import OUR_VARIANTS, REDIS_VARIANTS, TRANSPORTS, VARIANTS, Case, Transport
from headrace.studies.in_network.comparisons import Comparison, compare
from headrace.studies.in_network.figures import COLUMNS, figures_of
from headrace.studies.in_network.hosts import LINK_COLUMNS, Link, calibrate, why_no_hosts
from headrace.studies.in_network.measure import REDIS, measure
from headrace.studies.sheet import Rows, Sheet

__all__ = ["InNetwork"]

_LAN = Link(10e9)
"""The link between server and learner if all three hosts are in one place."""
_LOCAL: tuple[Transport, ...] = ("unix", "memif")
"""Transports within one machine, besides TCP, that only our server has."""


@dataclass(frozen=True)
class InNetworkOptions(Options):
    """Which transports to measure."""

    transports: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TRANSPORT ...")] = ()
    """kernel: sockets; bypass: user-space networking (see docs/bypass.md). By default both."""
    known: ClassVar = {"transports": tuple(TRANSPORTS)}
    defaults: ClassVar = {"small": {"transports": tuple(TRANSPORTS)}, "full": {"transports": tuple(TRANSPORTS)}}


class InNetwork(Study):
    """In-network experience sampling against Redis with sampling in the learner."""

    name = "in-network"
    summary = "experience sampled in the server between actors and learner, against Redis (Furukawa, Matsutani)"
    options = InNetworkOptions
    parts = (
        Part("links", LINK_COLUMNS),
        Part("measurements", COLUMNS, lambda case, _: Measured(figures_of(measure(case)))),
    )
    told: ClassVar = {
        "updates_per_s": "{:.1f} updates/s",
        "sampling_mean_us": "sampling {:,.0f} µs",
        "sampling_p50_us": "p50 {:,.0f}",
        "access_mean_us": "access {:,.0f} µs",
        "access_p50_us": "p50 {:,.0f}",
    }

    def plan(self, scale: Scale, options: InNetworkOptions) -> Plan:
        """Every case once in each round, so that a slow minute affects all variants."""
        wanted = [each for word in options.chosen("transports", scale) for each in TRANSPORTS[word]]
        every, rounds = (_small(), 1) if scale == "small" else (_full(), 3)
        cases = [case for case in every if case.transport in wanted]
        measurements = tuple(replace(case, round=number) for number in range(rounds) for case in cases)
        return {"links": _links(measurements), "measurements": measurements}

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """Measures each link, and leaves out cases whose hosts, links, games or Redis are not available here."""
        del output
        notes: list[str] = []
        for what, reason, concerns in (
            ("cases between hosts", why_no_hosts(), lambda case: getattr(case, "link", None) is not None),
            ("cases with Redis", _why_no_redis(), lambda case: getattr(case, "variant", "") in REDIS_VARIANTS),
            ("cases that bypass the kernel", _why_no_bypass(), lambda case: getattr(case, "transport", "") == "memif"),
            ("cases with real Breakout", _why_no_breakout(), lambda case: getattr(case, "kind", "") == "breakout"),
        ):
            plan, more = leave_out(plan, what, reason, concerns)
            notes += more
        for link in _links(plan["measurements"]):
            try:
                row = calibrate(link)
            except HeadraceError as error:
                kept = tuple(case for case in plan["measurements"] if case.link != link)
                plan = {**plan, "measurements": kept}
                notes.append(f"cases over a link of {link} are left out: {error}")
                continue
            sheets["links"].put(link.name, [row])
            say(
                f"link of {link}: round trip {row['round_trip_p50_us']:.0f} µs, {row['rate_reached_gbit_s']:.2f} Gbit/s"
            )
        return plan, notes

    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Comparison]:
        """Latencies compared with every peer's, and the bytes of a transition."""
        return compare(rows["measurements"])


def _small() -> list[Case]:
    base = Case("server", "loopback", 2, "synthetic", batch_size=64, seconds=3.0)
    cases = [replace(base, actors=actors, variant=v) for actors in (1, 2, 4, 8) for v in ("redis", "server")]
    cases += [replace(base, variant=variant) for variant in ("redis-ahead", "learner")]
    cases += [replace(base, variant=variant, transport=over) for variant in OUR_VARIANTS for over in _LOCAL]
    cases += [replace(base, kind="breakout", variant=variant) for variant in ("redis", "server")]
    cases += [replace(base, transport="hosts", link=_LAN, variant=variant) for variant in VARIANTS]
    return [*cases, *_edge(base, delays=(50e-6, 5e-3), rates=(1e9,))]


def _full() -> list[Case]:
    base = Case("server", "loopback", 4, "synthetic", batch_size=128, seconds=6.0)
    cases = []
    for actors in (1, 2, 4, 8):
        each = replace(base, actors=actors)
        for variant in VARIANTS:
            cases += [
                replace(each, variant=variant),
                replace(each, variant=variant, kind="breakout"),
                replace(each, variant=variant, transport="hosts", link=_LAN),
            ]
        cases += [replace(each, variant=variant, transport=over) for variant in OUR_VARIANTS for over in _LOCAL]
    return [*cases, *_edge(base, delays=(50e-6, 5e-3, 20e-3, 50e-3), rates=(1e9, 10e9))]


def _edge(base: Case, delays: tuple[float, ...], rates: tuple[float, ...]) -> Iterator[Case]:
    """Actors and server at the edge, the learner in the cloud: sampling on either side of the link."""
    for rate in rates:
        for delay in delays:
            for variant in OUR_VARIANTS:
                yield replace(base, variant=variant, transport="hosts", link=Link(rate, delay))


def _links(cases: Sequence[Case]) -> tuple[Link, ...]:
    return tuple(dict.fromkeys(case.link for case in cases if case.link))


def _why_no_redis() -> str:
    if shutil.which(REDIS) is None:
        return f"{REDIS} is not installed (apt-get install {REDIS})"
    if importlib.util.find_spec("redis") is None:
        return 'its client library is not installed (pip install "headrace[redis]")'
    return ""


def _why_no_bypass() -> str:
    try:
        find_polling_server()
    except ConfigError as error:
        return str(error)
    return ""


def _why_no_breakout() -> str:
    missing = [module for module in ("ale_py", "cv2") if importlib.util.find_spec(module) is None]
    return f'{" and ".join(missing)} not installed (pip install "headrace[atari]")' if missing else ""
