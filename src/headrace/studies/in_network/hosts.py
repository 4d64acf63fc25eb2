"""Hosts made of network namespaces, and the links between them; needs root and Linux."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import StorageError
from headrace.studies.processes import Process
from headrace.studies.sheet import fingerprint

__all__ = ["Hosts", "Link", "why_no_hosts"]

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
class Link:
    """A cable between two hosts: its rate in each direction, and its delay one way."""

    rate_bits: float
    """Bits per second, headers included."""
    delay_seconds: float = 0.0

    @property
    def name(self) -> str:
        """A name that is equal for equal links."""
        return fingerprint("link", asdict(self))

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
