"""1,000 actors' connections on one server: its memory, its CPU time, and how long a policy takes to reach every actor.

The actors have no environments. Each has an actor's three connections over TCP with a token, and sends what an actor
sends: chunks at a set rate, ten reports per second, and polls for a newer policy, which is always there. Several
processes share the actors and stand for nodes. Two variants: every actor fetches policies from the server, or every
node has a relay that fetches each once, as `headrace actor` has. This process publishes the policies and reads the
reports, as a learner does.
"""

import json
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.connections_actors import (
    CONNECTIONS,
    REPORT_SECONDS,
    SIGNATURE,
    Options,
    Outcome,
    Plan,
    connection_seconds,
)
from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from benchmarks.measure import Row, at_least, make_parser, positive, positive_number, report, require, run, warn_if_busy
from benchmarks.standing import token_server
from headrace._native import Client
from headrace.parameters.snapshot import Stamp
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.messages import REPORTS

_CAPACITY = 100_000
_PARAMETERS = 8 * 256 + 256 + 256 * 256 + 256 + 256 * 4 + 4  # of LunarLander's preset
_WARM_UP_SECONDS = 3.0  # at least one pull period as well
_START_SECONDS = 1.0  # until every process has read its plan
_READ_SECONDS = 0.1
_ALLOWED_CONNECTIONS = 4096  # max_connections in io/loop.h
_SPARE = 64  # connections and descriptors for all else
_HELD = 0.99


@dataclass(frozen=True)
class _Load:
    """What all actors ask for."""

    actors: int
    nodes: int
    frames_per_second: float
    pull_frames: float
    publish_seconds: float
    policy_bytes: int
    seconds: float

    @property
    def pull_seconds(self) -> float:
        """Time between two polls of an actor."""
        return self.pull_frames / self.frames_per_second


class _Learner:
    """Publishes policies and reads reports at intervals."""

    def __init__(self, address: str, token: str, load: _Load) -> None:
        self._client = Client(address, token=token.encode(), request_timeout_seconds=120.0)
        self._policy = np.random.default_rng(0).bytes(load.policy_bytes)
        self._period = load.publish_seconds
        self.published: dict[int, float] = {}  # version: time
        self.cpu_seconds = 0.0  # for reading reports

    def fill(self) -> None:
        """Fills the table and publishes a policy, so that memory does not grow with experience later."""
        self._client.open_table(REPLAY.name, SIGNATURE, fresh=True, capacity=_CAPACITY)
        steps = make_steps(CHUNK_STEPS + N_STEP, (8,), "float32", seed=0)
        chunk = sent_as(bytearray(chunks_of(SIGNATURE, steps)[0]), 0, 0)
        for _ in range(2 * _CAPACITY // CHUNK_STEPS):
            self._client.insert(REPLAY.name, chunk)
        self.publish()

    def publish(self) -> None:
        """Publishes the next version."""
        version = len(self.published) + 1
        self.published[version] = time.monotonic()
        for name, data in POLICY.blobs(self._policy, Stamp.now()).items():
            self._client.publish(name, data, version)

    def learn(self, begin: float, end: float) -> None:
        """Publishes and reads from one time to another."""
        due = begin
        while (now := time.monotonic()) < end:
            if now >= due:
                self.publish()
                due += self._period
            cpu = time.thread_time()
            for message in self._client.drain(REPORTS):
                json.loads(message)
            self.cpu_seconds += time.thread_time() - cpu
            time.sleep(max(min(_READ_SECONDS, end - time.monotonic()), 0.0))

    def server_cpu_seconds(self) -> float:
        """CPU seconds of the server so far."""
        return float(self._client.stats()["cpu_seconds"])


class _Measured(NamedTuple):
    memory: dict[str, int]  # resident bytes of the server
    server_cores: float
    actor_cores: float
    reading_cores: float
    chunks_per_second: float
    reports_per_second: float
    insert: list[float]
    delay: list[float]
    fetch: list[float]
    reached: list[float]  # seconds from each publication to each actor that got it or a newer one
    expected: int  # publications x actors
    connect_seconds: float = 0.0


def _measure(load: _Load, *, relayed: bool) -> _Measured:
    token = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as folder:
        token_file = Path(folder) / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(token)
        with token_server(token_file) as (address, server):
            learner = _Learner(address, token, load)
            learner.fill()
            empty = _resident_bytes(server)
            with _nodes(load, address, token, relayed=relayed) as nodes:
                connect_seconds = max(_connection_seconds(node) for node in nodes)
                connected = _resident_bytes(server)
                memory = {"before": empty, "connected": connected}
                return _apply(load, learner, server, nodes, memory)._replace(connect_seconds=connect_seconds)


def _connection_seconds(node: "subprocess.Popen[str]") -> float:
    assert node.stdout is not None
    return connection_seconds(node.stdout.readline())


@contextmanager
def _nodes(load: _Load, address: str, token: str, *, relayed: bool) -> "Iterator[list[subprocess.Popen[str]]]":
    """A process for each node; all are killed at the end."""
    each = load.actors // load.nodes
    nodes = []
    try:
        for node in range(load.nodes):
            options = Options(
                *(address, token, node * each, each, load.actors, load.frames_per_second, load.pull_seconds, relayed)
            )
            command = [sys.executable, "-m", "benchmarks.connections_actors", json.dumps(asdict(options))]
            root = Path(__file__).parent.parent
            pipe = subprocess.PIPE
            nodes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root))
        yield nodes
    finally:
        for process in nodes:
            process.kill()
            process.wait()


def _apply(
    load: _Load,
    learner: _Learner,
    server: int,
    nodes: "list[subprocess.Popen[str]]",
    memory: dict[str, int],
) -> _Measured:
    """Starts the load and measures it."""
    begin = time.monotonic() + _START_SECONDS
    counted = begin + max(_WARM_UP_SECONDS, 2 * load.pull_seconds)
    plan = Plan(begin, counted, counted + load.seconds)
    for node in nodes:
        assert node.stdin is not None
        node.stdin.write(json.dumps(asdict(plan)) + "\n")
        node.stdin.flush()
    learner.learn(begin, counted)
    cpu, reading, at = learner.server_cpu_seconds(), learner.cpu_seconds, time.monotonic()
    learner.learn(counted, plan.end)
    elapsed = time.monotonic() - at
    cpu, reading = learner.server_cpu_seconds() - cpu, learner.cpu_seconds - reading
    memory = {**memory, "under load": _resident_bytes(server)}
    outcomes = [Outcome(**json.loads(node.communicate()[0])) for node in nodes]
    last = plan.end - 2 * load.pull_seconds  # later ones may not have been due at every actor
    versions = {version: at for version, at in learner.published.items() if counted <= at <= last}
    return _Measured(
        memory=memory,
        server_cores=cpu / elapsed,
        actor_cores=sum(outcome.cpu_seconds for outcome in outcomes) / load.seconds,
        reading_cores=reading / elapsed,
        chunks_per_second=sum(outcome.chunks for outcome in outcomes) / load.seconds,
        reports_per_second=sum(outcome.reports for outcome in outcomes) / load.seconds,
        insert=[seconds for outcome in outcomes for seconds in outcome.insert],
        delay=[seconds for outcome in outcomes for seconds in outcome.delay],
        fetch=[seconds for outcome in outcomes for seconds in outcome.fetch],
        reached=[wait for outcome in outcomes for each in outcome.arrivals for wait in _waits(each, versions)],
        expected=len(versions) * load.actors,
    )


def _waits(arrivals: list[tuple[float, int]], versions: dict[int, float]) -> Iterator[float]:
    """Seconds from each publication until one actor had that version or a newer one; nothing for those it never got."""
    for version, published in versions.items():
        at = next((at for at, had in arrivals if had >= version), None)
        if at is not None:
            yield at - published


def _resident_bytes(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _described(load: _Load, measured: _Measured, *, relayed: bool) -> list[Row]:
    """The rows of one variant."""
    name = f"{load.actors} actors, " + (f"{load.nodes} relays" if relayed else "direct")
    of_each = CONNECTIONS - relayed
    connections = of_each * load.actors
    chunks, reports = load.actors * load.frames_per_second / CHUNK_STEPS, load.actors / REPORT_SECONDS
    before, cores = measured.memory["before"], float(len(os.sched_getaffinity(0)))
    rows = [
        at_least(f"{name}: inserted", "chunks/s", measured.chunks_per_second, "asked", chunks, _HELD),
        at_least(f"{name}: reported", "reports/s", measured.reports_per_second, "asked", reports, _HELD),
        at_least(f"{name}: got", "policies", len(measured.reached), "published x actors", measured.expected, 1.0),
        Row(f"{name}: time to connect", "s", measured.connect_seconds, "connections", connections),
        Row(f"{name}: server's memory before", "MiB", before / 2**20),
        *(
            Row(f"{name}: memory per connection, {when}", "KiB", (measured.memory[when] - before) / 1024 / connections)
            for when in ("connected", "under load")
        ),
        Row(f"{name}: server", "cores", measured.server_cores, "cores", cores),
        Row(f"{name}: actors' processes", "cores", measured.actor_cores, "cores", cores),
        Row(f"{name}: reading the reports", "cores", measured.reading_cores, "cores", cores),
    ]
    for what, values in (
        ("insert", measured.insert),
        ("insert, from when it was due", measured.delay),
        ("fetch of news and policy", measured.fetch),
    ):
        rows += [
            Row(f"{name}: {what}, {label}", "ms", 1e3 * float(np.percentile(values, share)))
            for label, share in (("p50", 50), ("p99", 99), ("max", 100))
        ]
    for what, share, wait in (("p50", 50, load.pull_seconds / 2), ("max", 100, load.pull_seconds)):
        ours, peer = 1e3 * float(np.percentile(measured.reached, share)), 1e3 * wait
        rows.append(Row(f"{name}: published to received, {what}", "ms", ours, "wait for the poll", peer, ours / peer))
    return rows


def main() -> int:
    """Measures, prints and writes results/connections.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--actors", type=positive, default=1000)
    parser.add_argument("--nodes", type=positive, default=10, help="processes that share them, each with a relay")
    parser.add_argument(
        "--frames-per-second", type=positive_number, default=139.0, help="of each actor (Ape-X paper: 139)"
    )
    parser.add_argument(
        "--pull-frames", type=positive_number, default=400.0, help="frames between two polls of an actor"
    )
    parser.add_argument("--publish-seconds", type=positive_number, default=1.0, help="time between two publications")
    parser.add_argument(
        "--policy-bytes", type=positive, default=4 * _PARAMETERS, help="default: LunarLander's, in fp32"
    )
    parser.add_argument("--seconds", type=positive_number, default=30.0, help="of each variant")
    load = _Load(**vars(parser.parse_args()))
    if load.actors % load.nodes:
        parser.error(f"--actors is {load.actors}; it must be a multiple of --nodes, {load.nodes}")
    allowed = min(_ALLOWED_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]) - _SPARE
    if CONNECTIONS * load.actors > allowed:
        parser.error(f"--actors is {load.actors}; the server has room for {allowed // CONNECTIONS} here")
    if load.seconds < 2 * load.pull_seconds + load.publish_seconds:
        parser.error(f"--seconds is {load.seconds:g}; it must be above two pull periods and a publication")
    require("headrace")
    warn_if_busy()
    rows = [
        row for relayed in (False, True) for row in _described(load, _measure(load, relayed=relayed), relayed=relayed)
    ]
    return report("connections", rows)


if __name__ == "__main__":
    run(main)
