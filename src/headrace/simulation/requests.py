"""Measures what requests of roles to their server cost on this machine."""

import statistics
import time
from typing import NamedTuple

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.launch.simulated.costs import Cost
from headrace.machine import available_cores
from headrace.servers import EmbeddedServer
from headrace.simulation.companions import open_companions

__all__ = ["Requests", "measure_requests"]

_CONTENTS = {"empty": 1, "full": 1 << 18}
"""Bytes of the policies that are fetched."""
_SHORTEST_SECONDS = 1e-6
_BITS = 8


class Requests(NamedTuple):
    """What requests to a server on this machine cost, over a Unix socket, with a worker for each core."""

    link: str
    """The time that is not spent by a processor, as `--link` takes it."""
    request: Cost
    """Processor time of the role, for each request and byte."""
    answer: Cost
    """The same of the server."""


class _Call(NamedTuple):
    """Mean seconds of a request."""

    whole: float
    here: float
    """Processor time of the thread that makes it."""
    elsewhere: float
    """Processor time of the server."""

    @property
    def idle(self) -> float:
        """The time in which no processor worked for it."""
        return max(0.0, self.whole - self.here - self.elsewhere)


def measure_requests(environment: str, algorithm: Algorithm, seconds: float) -> Requests:
    """Lets a worker for each core make a request after each turn, for so many seconds; raises LaunchError."""
    server = EmbeddedServer()
    try:
        for name, size in _CONTENTS.items():
            server.publish(name, bytes(size))
        empty, full = (_measure(environment, algorithm, server, name, seconds / len(_CONTENTS)) for name in _CONTENTS)
    finally:
        server.close()
    size = _CONTENTS["full"] - _CONTENTS["empty"]
    gigabits = _BITS * size / max(full.idle - empty.idle, _SHORTEST_SECONDS) / 1e9
    return Requests(
        f"{empty.idle / 2 * 1e6:.2f}us,{gigabits:.2f}Gbit",
        Cost(empty.here, per_byte=max(0.0, full.here - empty.here) / size),
        Cost(empty.elsewhere, per_byte=max(0.0, full.elsewhere - empty.elsewhere) / size),
    )


def _measure(environment: str, algorithm: Algorithm, server: EmbeddedServer, policy: str, seconds: float) -> _Call:
    with open_companions(available_cores(), environment, algorithm, server.endpoint, policy) as workers:
        begin, before = time.monotonic(), time.process_time()
        time.sleep(seconds)
        end, served = time.monotonic(), time.process_time() - before
        requests = [each for each in workers.end() if begin <= each.at <= end]
    if not requests:
        raise ConfigError("seconds must be larger: no worker made a request in its share of them")
    whole = statistics.fmean(each.whole for each in requests)
    own = statistics.fmean(each.own for each in requests)
    return _Call(whole, own, served / len(requests))
