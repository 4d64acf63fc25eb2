"""The load of the Ape-X paper on one server: 360 actors at 139 frames/s, a learner with 19 batches of 512 per second.

It then varies the load until the machine's limit is found, and measures the time of an insert during sampling.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from benchmarks.load_actors import SIGNATURE, TABLE, Options, Outcome
from benchmarks.measure import Row, at_least, make_parser, positive_number, report, require, run, warn_if_busy
from benchmarks.standing import standing_server
from headrace._native import BatchStream, Client
from headrace.errors import ClosedError

_ACTORS = 360
_FRAMES_PER_SECOND = 139.0
_BATCHES_PER_SECOND = 19.0
_BATCH = 512
_CAPACITY = 100_000
_PROCESSES = 2  # shared by the actors: a single interpreter would be the limit
_CONNECT_SECONDS = 4.0
_WARM_UP_SECONDS = 2.0  # the buffers of each connection's first chunk are untouched memory
_WARM_UP_BATCHES = 8  # so are the buffers of a stream's first batches
_HELD = 0.99  # of the required frames and batches: the load is then sustained
_STEP = 1.25
_LOADS = 10  # maximum number tried, after the paper's
_QUIET_CHUNKS_PER_SECOND = 100.0


class _Learned(NamedTuple):
    batches: int
    wait: list[float]  # for each batch, in seconds
    cpu_seconds: float  # of this process


class _Level(NamedTuple):
    """One load and its results."""

    factor: float
    frames_per_second: float
    batches_per_second: float
    server_cores: float
    actor_cores: float
    learner_cores: float
    idle_cores: float
    insert: list[float]
    delay: list[float]
    wait: list[float]

    def held(self) -> bool:
        """Whether the server sustained the load."""
        frames = self.factor * _ACTORS * _FRAMES_PER_SECOND
        batches = self.factor * _BATCHES_PER_SECOND
        return self.frames_per_second >= _HELD * frames and self.batches_per_second >= _HELD * batches


def measure_load(seconds: float) -> list[Row]:
    """Measures the paper's load for this many seconds, the limit and inserts during sampling for half as many each."""
    with standing_server() as addresses:
        client = Client(addresses["unix"], request_timeout_seconds=120.0)
        _fill(client)
        first = _apply(1.0, addresses, client, seconds)
        limit = _find_limit(first, lambda factor: _apply(factor, addresses, client, seconds / 2))
        latencies = _beside_sampling(addresses, seconds / 2)
    more = [] if limit is first else _described(limit, required=False)
    return [*_described(first, required=True), *more, *latencies]


def _fill(client: Client) -> None:
    client.open_table(TABLE, SIGNATURE, fresh=True, capacity=_CAPACITY, seed=0)
    chunks = chunks_of(SIGNATURE, make_steps(CHUNK_STEPS * 8 + N_STEP, (84, 84), "uint8", seed=99))
    for number in range(_CAPACITY // CHUNK_STEPS + 1):
        client.insert(TABLE, sent_as(bytearray(chunks[number % len(chunks)]), 0, 0))


def _find_limit(first: _Level, apply: Callable[[float], _Level]) -> _Level:
    """The largest sustained load, in steps of a quarter; the smallest load tried if none was sustained."""
    level = first
    for _ in range(_LOADS):
        if first.held():
            more = apply(level.factor * _STEP)
            if not more.held():
                break
            level = more
        else:
            level = apply(level.factor / _STEP)
            if level.held():
                break
    return level


def _apply(factor: float, addresses: dict[str, str], client: Client, seconds: float) -> _Level:
    """Runs the actors in separate processes over TCP, and the learner here over the Unix socket."""
    begin = time.monotonic() + _CONNECT_SECONDS
    counted = begin + _WARM_UP_SECONDS
    end = counted + seconds
    each = Options(addresses["tcp"], _ACTORS // _PROCESSES, factor * _FRAMES_PER_SECOND, begin, counted, end, seed=0)
    actors = [_start_actors(replace(each, seed=seed)) for seed in range(1, _PROCESSES + 1)]
    stream = BatchStream(addresses["unix"], TABLE, _BATCH, 0.4)
    _learn(stream, client, factor * _BATCHES_PER_SECOND, begin, counted)
    server_before, idle_before = client.stats()["cpu_seconds"], _idle_seconds()
    learned = _learn(stream, client, factor * _BATCHES_PER_SECOND, counted, end)
    elapsed = time.monotonic() - counted
    server_after, idle_after = client.stats()["cpu_seconds"], _idle_seconds()
    stream.close()
    outcomes = [Outcome(**json.loads(process.communicate()[0])) for process in actors]
    return _Level(
        factor=factor,
        frames_per_second=sum(outcome.chunks for outcome in outcomes) * CHUNK_STEPS / seconds,
        batches_per_second=learned.batches / seconds,
        server_cores=(server_after - server_before) / elapsed,
        actor_cores=sum(outcome.cpu_seconds for outcome in outcomes) / elapsed,
        learner_cores=learned.cpu_seconds / elapsed,
        idle_cores=(idle_after - idle_before) / elapsed,
        insert=[each for outcome in outcomes for each in outcome.latency],
        delay=[each for outcome in outcomes for each in outcome.delay],
        wait=learned.wait,
    )


def _start_actors(options: Options) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.load_actors", json.dumps(asdict(options))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


def _learn(stream: BatchStream, client: Client, batches_per_second: float, begin: float, end: float) -> _Learned:
    """Takes batches at a set rate and sends their priorities back."""
    time.sleep(max(begin - time.monotonic(), 0.0))
    rng = np.random.default_rng(0)
    priority = rng.random((64, _BATCH), np.float32)
    wait: list[float] = []
    cpu = time.process_time()
    due = begin
    while due < end:
        time.sleep(max(due - time.monotonic(), 0.0))
        asked = time.monotonic()
        batch = stream.next(max(end - asked, 0.0))
        if batch is None:
            break
        wait.append(time.monotonic() - asked)
        client.update_priorities(TABLE, batch[7], priority[len(wait) % len(priority)])
        due += 1 / batches_per_second
    cpu_seconds = time.process_time() - cpu
    time.sleep(max(end - time.monotonic(), 0.0))
    return _Learned(len(wait), wait, cpu_seconds)


def _idle_seconds() -> float:
    """Idle core seconds of this machine."""
    return float(Path("/proc/uptime").read_text().split()[1])


def _described(level: _Level, *, required: bool) -> list[Row]:
    """The rows of a level; the paper's level has requirements."""
    name = f"{level.factor:.3g} x {_ACTORS} actors"
    frames, batches = level.factor * _ACTORS * _FRAMES_PER_SECOND, level.factor * _BATCHES_PER_SECOND
    asked = f"{level.factor:.3g} x Ape-X"
    rows = [
        at_least(f"{name}: inserted", "frames/s", level.frames_per_second, asked, frames, _HELD, required=required),
        at_least(f"{name}: sampled", "batches/s", level.batches_per_second, asked, batches, _HELD, required=required),
    ]
    for what, cores in (
        ("server", level.server_cores),
        ("actors", level.actor_cores),
        ("learner", level.learner_cores),
        ("idle", level.idle_cores),
    ):
        rows.append(Row(f"{name}: {what}", "cores", cores, "cores", float(len(os.sched_getaffinity(0)))))
    for what, values in (("insert", level.insert), ("insert, from when it was due", level.delay), ("wait", level.wait)):
        rows += [
            Row(f"{name}: {what}, p{share}", "ms", 1e3 * float(np.percentile(values, share)))
            for share in (50, 99, 99.9)
        ]
    return rows


def _beside_sampling(addresses: dict[str, str], seconds: float) -> list[Row]:
    """One connection's inserts at a set rate, alone and while batches of 29 MB are taken back to back."""
    rows = []
    for transport, address in addresses.items():
        alone = _inserts(addresses["tcp"], seconds)
        stop = threading.Event()
        stream = BatchStream(address, TABLE, _BATCH, 0.4)
        for _ in range(_WARM_UP_BATCHES):
            stream.next()
        taken: list[int] = []
        learner = threading.Thread(target=_take_all, args=(stream, stop, taken))
        learner.start()
        sampling = _inserts(addresses["tcp"], seconds)
        stop.set()
        learner.join()
        stream.close()
        rate = len(taken) / seconds
        for share in (50, 99):
            ours, peer = (1e3 * float(np.percentile(values, share)) for values in (sampling, alone))
            name = f"insert during {rate:.0f} batches/s over {transport}, p{share}"
            rows.append(Row(name, "ms", ours, "no sampling", peer, ours / peer))
    return rows


def _take_all(stream: BatchStream, stop: threading.Event, taken: list[int]) -> None:
    while not stop.is_set():
        try:
            if stream.next(0.1) is not None:
                taken.append(1)
        except ClosedError:
            return


def _inserts(address: str, seconds: float) -> list[float]:
    """Seconds of each insert of a chunk."""
    client = Client(address)
    (chunk,) = chunks_of(SIGNATURE, make_steps(CHUNK_STEPS + N_STEP, (84, 84), "uint8", seed=1))[:1]
    data = sent_as(bytearray(chunk), 0, 0)
    due = time.monotonic()
    end = due + seconds
    latency = []
    while due < end:
        time.sleep(max(due - time.monotonic(), 0.0))
        begin = time.monotonic()
        client.insert(TABLE, data)
        latency.append(time.monotonic() - begin)
        due += 1 / _QUIET_CHUNKS_PER_SECOND
    return latency


def main() -> int:
    """Measures, prints and writes results/load.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=positive_number, default=10.0, help="of the paper's load; others: half")
    arguments = parser.parse_args()
    require("headrace")
    warn_if_busy()
    return report("load", measure_load(arguments.seconds))


if __name__ == "__main__":
    run(main)
