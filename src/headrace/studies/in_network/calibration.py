"""Measures a link: the round trip of a small message over TCP, and the rate of a long one.

As a program it is one end of the link.
"""

import contextlib
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.studies.in_network.hosts import Link
from headrace.studies.in_network.measure import make_hosts
from headrace.studies.processes import Process, answer, received
from headrace.studies.statistics import quantile

__all__ = ["COLUMNS", "calibrate"]

COLUMNS = (
    *("rate_set_gbit_s", "rate_reached_gbit_s"),
    *("round_trip_set_us", "round_trip_p50_us", "round_trip_p99_us"),
)
"""Columns of a row of calibrate()."""

_PORT = 7448
_TRIPS, _TRIPS_FAR = 200, 20  # of messages; fewer if the delay is 5 ms or more
_MESSAGE_BYTES = 64
_BLOCK = bytes(1 << 20)
_SLOW_START_TRIPS = 20
_RATE_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
_SAY_SECONDS = 30.0


@dataclass(frozen=True)
class _End:
    """Settings of one end of the link."""

    takes: bool
    address: str
    trips: int
    warm_up_seconds: float


def calibrate(link: Link) -> dict[str, float]:
    """The link as configured and as measured, from server to learner and back."""
    trips = _TRIPS if link.delay_seconds < 5e-3 else _TRIPS_FAR
    warm_up_seconds = 0.2 + _SLOW_START_TRIPS * 2 * link.delay_seconds
    with tempfile.TemporaryDirectory(prefix="headrace-study-") as folder, contextlib.ExitStack() as stack:
        hosts = stack.enter_context(make_hosts(link))
        near, far = (
            stack.enter_context(
                Process.of_module(
                    __name__,
                    Path(folder),
                    _End(host == "learner", hosts.address("learner", "server"), trips, warm_up_seconds),
                    hosts.command(host),
                    f"calibration on {host}",
                )
            )
            for host in ("learner", "server")
        )
        round_trip = far.record(_SAY_SECONDS)
        rate_bits = near.record(_SAY_SECONDS)
    return {
        "rate_set_gbit_s": link.rate_bits / 1e9,
        "rate_reached_gbit_s": rate_bits / 1e9,
        "round_trip_set_us": 2e6 * link.delay_seconds,
        "round_trip_p50_us": 1e6 * round_trip["p50"],
        "round_trip_p99_us": 1e6 * round_trip["p99"],
    }


def _take(settings: _End) -> None:
    """Echoes small messages, then receives a long one; answers with its rate in bits per second without slow start."""
    with socket.create_server((settings.address, _PORT)) as listener, listener.accept()[0] as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(settings.trips):
            peer.sendall(peer.recv(_MESSAGE_BYTES, socket.MSG_WAITALL))
        buffer = bytearray(len(_BLOCK))
        _take_for(peer, buffer, settings.warm_up_seconds)
        started = time.perf_counter()
        moved = _take_for(peer, buffer, _RATE_SECONDS)
        answer(8 * moved / (time.perf_counter() - started))


def _take_for(peer: socket.socket, buffer: bytearray, seconds: float) -> int:
    moved, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        moved += peer.recv_into(buffer)
    return moved


def _send(settings: _End) -> None:
    """Answers with the round trips' quantiles in seconds, then sends until the other end closes."""
    with _connect(settings.address) as peer, contextlib.suppress(ConnectionError):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken: list[float] = []
        for _ in range(settings.trips):
            started = time.perf_counter()
            peer.sendall(bytes(_MESSAGE_BYTES))
            peer.recv(_MESSAGE_BYTES, socket.MSG_WAITALL)
            taken.append(time.perf_counter() - started)
        answer({"p50": quantile(taken, 0.5), "p99": quantile(taken, 0.99)})
        while True:
            peer.sendall(_BLOCK)


def _connect(address: str) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection((address, _PORT))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    end = received(_End)
    (_take if end.takes else _send)(end)
