"""Hosts made of network namespaces, and the links between them, which it measures; needs root and Linux.

As a program it is one end of a link that is measured.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import StorageError
from headrace.studies.base import Case
from headrace.studies.processes import Process, answer, received
from headrace.studies.statistics import quantile

__all__ = ["LINK_COLUMNS", "Hosts", "Link", "calibrate", "make_hosts", "why_no_hosts"]

LINK_COLUMNS = (
    *("rate_set_gbit_s", "rate_reached_gbit_s"),
    *("round_trip_set_us", "round_trip_p50_us", "round_trip_p99_us"),
)
"""Columns of a row of calibrate()."""

_PORT = 7448  # of the program that measures
_TRIPS, _TRIPS_FAR = 200, 20  # of messages; fewer if the delay is 5 ms or more
_MESSAGE_BYTES = 64
_BLOCK = bytes(1 << 20)
_SLOW_START_TRIPS = 20
_RATE_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
_SAY_SECONDS = 30.0
_TUN = Path("/dev/net/tun")
_SOURCE = Path(__file__).with_name("wire.c")
_START_SECONDS = 10.0
_BURST_BYTES = 512 << 10
_QUEUE_BYTES = 64 << 20
_WINDOW_BYTES = 256 << 20  # 10 Gbit/s with a round trip of 0.1 s has 125 MB in flight
_SETTINGS = {
    "net.ipv4.tcp_rmem": f"4096 131072 {_WINDOW_BYTES}",
    "net.ipv4.tcp_wmem": f"4096 131072 {_WINDOW_BYTES}",
    "net.ipv4.tcp_slow_start_after_idle": "0",
}


@dataclass(frozen=True)
class Link(Case):
    """A cable between two hosts: its rate in each direction, and its delay one way."""

    prefix = "link"

    rate_bits: float
    """Bits per second, headers included."""
    delay_seconds: float = 0.0

    def __str__(self) -> str:
        delay = f"{self.delay_seconds * 1e6:g} µs" if self.delay_seconds < 1e-3 else f"{self.delay_seconds * 1e3:g} ms"
        return f"{self.rate_bits / 1e9:g} Gbit/s{f', {delay} one way' if self.delay_seconds else ''}"


def why_no_hosts() -> str:
    """Why hosts can't be created here; empty if they can."""
    missing = [tool for tool in ("ip", "tc", "sysctl") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not found (apt-get install iproute2 procps)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"headrace-{secrets.token_hex(4)}"
    try:
        _run("ip", "netns", "add", name)
    except StorageError as error:
        return f"network namespaces are not allowed here: {error}"
    _remove(name)
    return ""


_ACTOR_LINK = Link(10e9)
"""The link between actors and server."""


class Hosts:
    """Named hosts and the links between them, for the duration of a `with` block; not thread-safe.

    A link without delay is a veth pair. A link with a delay is a pair of TUN devices joined by a process that delays
    each packet (wire.c, compiled at run time), because not every kernel has netem. A token bucket on either end limits
    the rate by blocking the sender. Names are random. Raises StorageError if the system refuses.
    """

    def __init__(self, links: Mapping[tuple[str, str], Link]) -> None:
        self._tag = secrets.token_hex(3)
        self._links = links
        self._addresses: dict[tuple[str, str], str] = {}
        self._devices: dict[tuple[str, str], str] = {}
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            names = sorted({name for pair in self._links for name in pair})
            for name in names:
                _run("ip", "netns", "add", self._namespace(name))
                self._cleanup.callback(_remove, self._namespace(name))
                _run("ip", "-n", self._namespace(name), "link", "set", "lo", "up")
                settings = [f"{key}={value}" for key, value in _SETTINGS.items()]
                _run(*self.command(name), "sysctl", "-qw", *settings)
            for number, (pair, link) in enumerate(self._links.items()):
                self._connect(number, pair, link)
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def command(self, host: str) -> list[str]:
        """Prefix of a command that runs it on that host."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def address(self, host: str, seen_from: str) -> str:
        """The IP address of a host on its link with another."""
        return self._addresses[host, seen_from]

    def sent_bytes(self, host: str, towards: str) -> int:
        """Bytes that a host has sent over its link with another, including headers (one for each large segment)."""
        device = self._devices[host, towards]
        shown = _run("ip", "-n", self._namespace(host), "-s", "-j", "link", "show", "dev", device)
        return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])

    def _namespace(self, host: str) -> str:
        return f"headrace-{self._tag}-{host}"

    def _connect(self, number: int, pair: tuple[str, str], link: Link) -> None:
        devices = [f"hr{self._tag}{number}{end}" for end in "ab"]
        if link.delay_seconds:
            self._cleanup.enter_context(_wire(devices, link))
        else:
            _run("ip", "link", "add", devices[0], "type", "veth", "peer", "name", devices[1])
        addresses = [f"10.213.{number}.{end}" for end in (1, 2)]
        for end in (0, 1):
            host, other = pair[end], pair[1 - end]
            namespace, device = self._namespace(host), devices[end]
            _run("ip", "link", "set", device, "netns", namespace)
            _run("ip", "-n", namespace, "address", "add", addresses[end], "peer", addresses[1 - end], "dev", device)
            _run("ip", "-n", namespace, "link", "set", device, "up")
            bucket = ["rate", f"{link.rate_bits:.0f}bit", "burst", str(_BURST_BYTES), "limit", str(_QUEUE_BYTES)]
            _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", *bucket)
            self._addresses[host, other] = addresses[end]
            self._devices[host, other] = device


@contextlib.contextmanager
def _wire(devices: Sequence[str], link: Link) -> Iterator[None]:
    """Two TUN devices in this namespace, joined by a process; both disappear when it ends."""
    if not _TUN.exists():
        raise StorageError(f"{_TUN} is missing; a link with a delay is made of two TUN devices")
    compiler = shutil.which("cc")
    if compiler is None:
        raise StorageError("cc is missing; the process that delays packets is compiled at run time")
    buffer_bytes = int(2 * link.delay_seconds * link.rate_bits / 8) + (16 << 20)
    with tempfile.TemporaryDirectory(prefix="headrace-wire-") as folder:
        program = str(Path(folder) / "wire")
        _run(compiler, "-O2", "-pthread", "-o", program, str(_SOURCE))
        words = [program, *devices, f"{link.delay_seconds * 1e9:.0f}", str(buffer_bytes)]
        with Process("the delayed link", words, Path(folder) / "log") as process:
            process.listen(_START_SECONDS)
            yield


def _remove(namespace: str) -> None:
    subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise StorageError(f"{' '.join(command)} does not start: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise StorageError(f"{' '.join(command)} failed: {said[-1] if said else f'status {done.returncode}'}")
    return done.stdout


def make_hosts(link: Link) -> Hosts:
    """Three hosts in a row; `link` is the one between server and learner."""
    return Hosts({("actors", "server"): _ACTOR_LINK, ("server", "learner"): link})


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

        def start(host: str) -> Process:
            end = _End(host == "learner", hosts.address("learner", "server"), trips, warm_up_seconds)
            process = Process.of_module(__name__, Path(folder), end, hosts.command(host), f"calibration on {host}")
            return stack.enter_context(process)

        near, far = start("learner"), start("server")
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
