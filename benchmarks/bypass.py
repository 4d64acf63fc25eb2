"""User-space networking against the kernel's: round trips, pulls of policies, and batches of 29 MB.

Every contestant has a separate server and a separate client process; they take turns. Back to back, both ends of a
kernel socket are still awake when the next request comes; after a pause, both sleep. The polling server is started
with `--poll always`. Two processes poll, so there must be two cores that nothing else uses.
"""

import json
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Row, at_least, at_most, make_parser, report, require, run, warn_if_busy
from headrace.servers.polling import find_polling_server
from headrace.studies.in_network.hosts import why_no_hosts
from headrace.studies.processes import Process, serve

__all__ = ["Reached", "local", "over_veth"]

_ROUNDS = 5
_START_SECONDS = 20.0
_SERVER_IP, _CLIENT_IP = "10.78.0.1", "10.78.0.2"
_SUBNET = f"ip={_SERVER_IP}/24"


class Reached(NamedTuple):
    """A running server: what a client's command begins with, and how the client reaches the server."""

    prefix: Sequence[str]
    address: str
    token_file: Path | None = None


Figures = dict[str, float]
Start = Callable[[], AbstractContextManager[Reached]]


@contextmanager
def local(form: str, *options: str) -> Iterator[Reached]:
    """A server on this machine; `{folder}` in the address is a new directory."""
    with tempfile.TemporaryDirectory() as name:
        listen = form.format(folder=name)
        with serve(Path(name), [listen], options=options) as (_, [address]):
            yield Reached((), listen if listen.startswith("dpdk:") else address)


@contextmanager
def over_veth(*, bypass: bool, lossy: bool = False, options: Sequence[str] = ()) -> Iterator[Reached]:
    """A server and unmodified clients in two network namespaces; `lossy`: lossy_wire.py is between them."""
    tag = secrets.token_hex(3)
    server, client, between = (f"headrace-{tag}-{name}" for name in ("server", "client", "between"))
    mtu = ["mtu", "1500" if lossy else "9000"]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        token_file = Path(name) / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(secrets.token_hex(32))
        for space in (server, client, between):
            _run("ip", "netns", "add", space)
            stack.callback(_run, "ip", "netns", "del", space)
        joined = [(server, "port", between, "a"), (client, "port", between, "b")] if lossy else []
        for one, its, other, theirs in joined or [(server, "port", client, "port")]:
            _run(
                "ip", "-n", one, "link", "add", its, *mtu, "type", "veth", "peer", "name", theirs, *mtu, "netns", other
            )
            for space, port in ((one, its), (other, theirs)):
                _run("ip", "-n", space, "link", "set", "dev", port, "up")
                if bypass or lossy:
                    offloads = [word for what in ("tx", "gso", "tso", "gro") for word in (what, "off")]
                    _run("ip", "netns", "exec", space, "ethtool", "-K", port, *offloads)
        _run("ip", "-n", client, "addr", "add", f"{_CLIENT_IP}/24", "dev", "port")
        listen = f"tcp://{_SERVER_IP}:7447"
        if bypass:
            listen = f"dpdk:af_packet,interface=port,{_SUBNET},mtu={mtu[1]}"
        else:
            _run("ip", "-n", server, "addr", "add", f"{_SERVER_IP}/24", "dev", "port")
        if lossy:
            command = ["ip", "netns", "exec", between, sys.executable, "-m", "benchmarks.lossy_wire", "a", "b"]
            wire = stack.enter_context(Process("lossy_wire", command, Path(name) / "wire.log"))
            wire.hear("forwarding", _START_SECONDS)
        prefix = ["ip", "netns", "exec"]
        words = [*options, "--token-file", str(token_file)]
        with serve(Path(name), [listen], [*prefix, server], words):
            yield Reached((*prefix, client), f"tcp://{_SERVER_IP}:7447", token_file)


def why_no_veth() -> str:
    """Why over_veth() can't be had here; empty if it can."""
    return why_no_hosts() or ("" if shutil.which("ethtool") else "ethtool not found (apt-get install ethtool)")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


_POLLING = ("--poll", "always")
_LOCAL: dict[str, Start] = {
    "tcp": lambda: local("tcp://127.0.0.1:0"),
    "unix": lambda: local("unix:@"),
    "memif": lambda: local("dpdk:memif,socket={folder}/port," + _SUBNET, *_POLLING),
    "vhost": lambda: local("dpdk:vhost,socket={folder}/port," + _SUBNET, *_POLLING),
}
_VETH: dict[str, Start] = {
    "veth": lambda: over_veth(bypass=False),
    "veth to af_packet": lambda: over_veth(bypass=True, options=_POLLING),
}


def _measure(start: Start) -> Figures:
    with start() as (prefix, address, token_file):
        token = [token_file.read_text()] if token_file else []
        command = [*prefix, sys.executable, "-m", "benchmarks.bypass_client", address, *token]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{address}: {done.stderr}")
        figures: Figures = json.loads(done.stdout)
        return figures


def _medians(contestants: dict[str, Start]) -> dict[str, Figures]:
    """Medians over rounds, in each of which every contestant has a turn."""
    rounds = [{name: _measure(start) for name, start in contestants.items()} for _ in range(_ROUNDS)]
    return {
        name: {figure: statistics.median(each[name][figure] for each in rounds) for figure in rounds[0][name]}
        for name in contestants
    }


_TIMES = {
    "small": "request of 64 B, back to back",
    "page": "reply of 4 kB, back to back",
    "paused": "request of 64 B, after a pause",
}
_RATES = {"pull": "pull of a 13 MB policy", "batch": "batch of 29 MB, one at a time"}


def _rows(found: dict[str, Figures]) -> list[Row]:
    rows = []
    local_peers = ("tcp", "unix", "veth")
    for ours, peers in (("memif", local_peers), ("vhost", local_peers), ("veth to af_packet", ("veth",))):
        for peer in peers:
            if ours in found and peer in found:
                rows += _compare(ours, found[ours], peer, found[peer])
    return rows


def _compare(name: str, ours: Figures, peer_name: str, peer: Figures) -> list[Row]:
    """Requirements are for memif and vhost against TCP, over loopback and in Ethernet frames, and over veth."""
    bypassed = name != "veth to af_packet"  # on both ends
    limit = {"tcp": 0.5, "veth": 0.5 if bypassed else 1.0}.get(peer_name)
    floors = {"pull": 1.3, "batch": 0.8} if bypassed and peer_name in ("tcp", "veth") else {}

    def time(key: str, text: str, limit: float | None, peer_key: str = "", after: str = "") -> Row:
        times = 1e6 * ours[key], peer_name + after, 1e6 * peer[peer_key or key]
        if limit is None:
            return at_least(f"{name}: {text}", "us", *times, 0, required=False)
        return at_most(f"{name}: {text}", "us", times[0], limit, *times[1:], scale=True)

    rows = [
        time(f"{figure}_{share}", f"{text}, {share}", limit if (figure, share) == ("small", "p50") else None)
        for figure, text in _TIMES.items()
        for share in ("p50", "p99")
    ]
    if peer_name == "tcp":
        rows.append(time("small_p50", f"{_TIMES['small']}, p50", 0.2, "paused_p50", ", after a pause"))
    for key, text in _RATES.items():
        rates = ours[key] / 1e9, peer_name, peer[key] / 1e9
        rows.append(at_least(f"{name}: {text}", "GB/s", *rates, floors.get(key, 0), required=key in floors))
    return rows


def main() -> int:
    """Measures, prints and writes results/bypass.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace")
    find_polling_server()
    warn_if_busy()
    contestants = dict(_LOCAL)
    if reason := why_no_veth():
        print(f"benchmarks: without an unmodified client over veth: {reason}")
    else:
        contestants |= _VETH
    return report("bypass", _rows(_medians(contestants)))


if __name__ == "__main__":
    run(main)
