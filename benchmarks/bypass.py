"""User-space networking against the kernel's: round trips, pulls of policies, and batches of 29 MB.

Every contestant has a separate server and a separate client process; they take turns. Back to back, both ends of a
kernel socket are still awake when the next request comes; after a pause, both sleep. The polling server is started
with `--poll always`. Two processes poll, so there must be two cores that nothing else uses.
"""

import json
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Row, report, require, warn_if_busy
from headrace.errors import ConfigError
from headrace.servers.polling import find_polling_server
from headrace.studies.in_network.hosts import why_no_hosts
from headrace.studies.processes import serve

_ROUNDS = 5
_SERVER_IP, _CLIENT_IP = "10.78.0.1", "10.78.0.2"
_SUBNET = f"ip={_SERVER_IP}/24"


class _Reached(NamedTuple):
    """A running server: what the client's command begins with and how it reaches the server."""

    prefix: Sequence[str]
    address: str
    token: str = ""


Figures = dict[str, float]


@contextmanager
def _local(form: str) -> Iterator[_Reached]:
    """A server on this machine; `{folder}` in the address is a new directory."""
    with tempfile.TemporaryDirectory() as name:
        listen = form.format(folder=name)
        options = ["--poll", "always"] if listen.startswith("dpdk:") else []
        with serve(Path(name), [listen], options=options) as (_, [address]):
            yield _Reached((), listen if options else address)


@contextmanager
def _over_veth(*, bypass: bool) -> Iterator[_Reached]:
    """A server and an unmodified client in two network namespaces."""
    server, client = (f"headrace-{secrets.token_hex(3)}" for _ in range(2))
    token = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as name:
        token_file = Path(name) / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(token)
        try:
            for space in (server, client):
                _ip("netns", "add", space)
            end = ["port", "mtu", "9000"]
            _ip("-n", server, "link", "add", *end, "type", "veth", "peer", *end, "netns", client)
            _ip("-n", client, "addr", "add", f"{_CLIENT_IP}/24", "dev", "port")
            if bypass:
                _run("ip", "netns", "exec", client, "ethtool", "-K", "port", "tx", "off", "gso", "off", "tso", "off")
                listen, options = f"dpdk:af_packet,interface=port,{_SUBNET},mtu=9000", ["--poll", "always"]
            else:
                _ip("-n", server, "addr", "add", f"{_SERVER_IP}/24", "dev", "port")
                listen, options = f"tcp://{_SERVER_IP}:7447", []
            for space in (server, client):
                _ip("-n", space, "link", "set", "port", "up")
            prefix = ["ip", "netns", "exec"]
            with serve(Path(name), [listen], [*prefix, server], [*options, "--token-file", str(token_file)]):
                yield _Reached((*prefix, client), f"tcp://{_SERVER_IP}:7447", token)
        finally:
            for space in (server, client):
                subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


_LOCAL: dict[str, Callable[[], AbstractContextManager[_Reached]]] = {
    "tcp": lambda: _local("tcp://127.0.0.1:0"),
    "unix": lambda: _local("unix:@"),
    "memif": lambda: _local("dpdk:memif,socket={folder}/port," + _SUBNET),
    "vhost": lambda: _local("dpdk:vhost,socket={folder}/port," + _SUBNET),
}
_VETH: dict[str, Callable[[], AbstractContextManager[_Reached]]] = {
    "veth": lambda: _over_veth(bypass=False),
    "veth to af_packet": lambda: _over_veth(bypass=True),
}


def _measure(start: Callable[[], AbstractContextManager[_Reached]]) -> Figures:
    with start() as (prefix, address, token):
        command = [*prefix, sys.executable, "-m", "benchmarks.bypass_client", address, *([token] if token else [])]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{address}: {done.stderr}")
        figures: Figures = json.loads(done.stdout)
        return figures


def _medians(contestants: dict[str, Callable[[], AbstractContextManager[_Reached]]]) -> dict[str, Figures]:
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
    for ours, peers in (("memif", ("tcp", "unix")), ("vhost", ("tcp", "unix")), ("veth to af_packet", ("veth",))):
        for peer in peers:
            if ours in found:
                rows += _compare(ours, found[ours], peer, found[peer])
    return rows


def _compare(name: str, ours: Figures, peer_name: str, peer: Figures) -> list[Row]:
    """Requirements are for memif and vhost against TCP, and for an unmodified client over veth."""
    both, unmodified = peer_name == "tcp", peer_name == "veth"
    limits = {"small_p50": 0.5 if both else 1.0 if unmodified else None}
    rows = [
        _row(
            f"{name}: {text}, {share}", "us", 1e6 * ours[key], peer_name, 1e6 * peer[key], limits.get(key), at_most=True
        )
        for figure, text in _TIMES.items()
        for share in ("p50", "p99")
        for key in (f"{figure}_{share}",)
    ]
    if both:
        text = f"{name}: {_TIMES['small']}, p50"
        peer_seconds = 1e6 * peer["paused_p50"]
        rows.append(_row(text, "us", 1e6 * ours["small_p50"], "tcp, after a pause", peer_seconds, 0.2, at_most=True))
    floors = {"pull": 1.3, "batch": 0.8} if both else {}
    return rows + [
        _row(f"{name}: {text}", "GB/s", ours[key] / 1e9, peer_name, peer[key] / 1e9, floors.get(key), at_most=False)
        for key, text in _RATES.items()
    ]


def _row(name: str, unit: str, ours: float, peer_name: str, peer: float, bound: float | None, *, at_most: bool) -> Row:
    ratio = ours / peer
    if bound is None:
        return Row(name, unit, ours, peer_name, peer, ratio)
    holds = ratio <= bound if at_most else ratio >= bound
    required = f"{'<=' if at_most else '>='} {bound:g}"
    return Row(name, unit, ours, peer_name, peer, ratio, required, "holds" if holds else "MISSED")


def main() -> int:
    """Measures, prints and writes results/bypass.csv; returns status 1 if a requirement is missed."""
    require("headrace")
    try:
        find_polling_server()
    except ConfigError as error:
        print(f"benchmarks: {error}")
        return 2
    warn_if_busy()
    contestants = dict(_LOCAL)
    if reason := why_no_hosts():
        print(f"benchmarks: without an unmodified client over veth: {reason}")
    else:
        contestants |= _VETH
    return report("bypass", _rows(_medians(contestants)))


if __name__ == "__main__":
    sys.exit(main())
