"""How long a connection with small requests waits while another one makes a large request, in milliseconds.

A process fetches, inserts and samples all the time. Alongside, one connection opens tables, publishes, samples, updates
priorities, inserts and pushes gradients, in the largest sizes.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from benchmarks.measure import Row, at_most, make_parser, report, require, run, warn_if_busy
from benchmarks.stalls_probe import BLOB, SIGNATURE, TABLE
from benchmarks.standing import standing_server
from headrace._native import BatchStream, Client, OptimizerOptions, ShardedModel
from headrace.replay import BatchBuffer, ChunkWriter, Signature

_LIMIT_MILLISECONDS = 10.0
_REQUESTS = 20
_PAUSE_SECONDS = 0.02  # after each request; what it leaves behind counts, too
_IDLE_SECONDS = 10.0
_STORED = 1_000_000
_CHUNKS_OF_ONE_INSERT = 500
_KEYS = 65_536
_BLOB_BYTES = 250_000_000
_PARAMETERS = 50_000_000
_SHARDS = 4
_FRAMES = Signature((84, 84), "uint8", stack=4)
_FRAMES_BATCH = 11_500  # of 0.65 GB
_LARGE = Signature((1 << 20,), "uint8")
_LARGE_STEPS = 63  # a chunk of 64 MiB


class _Waits(NamedTuple):
    """The probe's requests in the order of their beginnings."""

    begin: "np.ndarray[tuple[int], np.dtype[np.float64]]"
    seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]"

    def longest(self, begin: float, end: float) -> float:
        """The longest of those that were under way between these times; 0 if there were none."""
        during = (self.begin < end) & (self.begin + self.seconds > begin)
        return float(self.seconds[during].max(initial=0.0))


class _Load(NamedTuple):
    name: str
    spans: list[tuple[float, float]]  # of its requests


def measure_stalls() -> list[Row]:
    """Measures each request separately; the server is `headrace serve`, over its Unix socket."""
    with standing_server() as addresses:
        address = addresses["unix"]
        client = Client(address, request_timeout_seconds=120.0)
        _fill(client)
        blob = bytes(_BLOB_BYTES)
        with _probing(address) as probe:
            idle_begin = time.monotonic()
            time.sleep(_IDLE_SECONDS)
            idle_end = time.monotonic()
            loads = [
                _repeat("create a table", lambda: _create_table(client)),
                _repeat(f"publish {_BLOB_BYTES / 1e6:.0f} MB", lambda: client.publish("large", blob)),
                *_sampling(address, client),
                _updates(client),
                _large_insert(client),
                _gradients(address),
            ]
        waits = _Waits(*np.array(json.loads(probe[0])).T)
    return [row for load in loads for row in _rows(load, waits, idle_begin, idle_end)]


def _fill(client: Client) -> None:
    client.publish(BLOB, b"weights")
    client.open_table(TABLE, SIGNATURE, fresh=True, capacity=_STORED, seed=0)
    _insert_repeatedly(client, TABLE, SIGNATURE, _STORED)
    client.open_table("frames", _FRAMES, fresh=True, capacity=2_000, seed=0)
    _insert_repeatedly(client, "frames", _FRAMES, 2_000)


def _insert_repeatedly(client: Client, table: str, signature: Signature, count: int) -> None:
    """Inserts one chunk as often as it takes to store so many transitions."""
    shape, dtype = signature.observation_shape, signature.observation_dtype
    (chunk,) = chunks_of(signature, make_steps(CHUNK_STEPS + N_STEP, shape, dtype, seed=0))[:1]
    chunks = [sent_as(bytearray(chunk), 0, 0)] * min(_CHUNKS_OF_ONE_INSERT, count // CHUNK_STEPS)
    for _ in range(0, count, len(chunks) * CHUNK_STEPS):
        client.insert(table, *chunks)


@contextmanager
def _probing(address: str) -> Iterator[list[str]]:
    """A context with the probe, which has printed its measurements at its end."""
    command = [sys.executable, "-m", "benchmarks.stalls_probe", address]
    printed: list[str] = []
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield printed
        finally:
            printed.append(process.communicate()[0])


def _repeat(name: str, request: Callable[[], object]) -> _Load:
    spans = []
    for _ in range(_REQUESTS):
        begin = time.monotonic()
        request()
        time.sleep(_PAUSE_SECONDS)
        spans.append((begin, time.monotonic()))
    return _Load(name, spans)


def _create_table(client: Client) -> None:
    client.open_table("created", _FRAMES, fresh=True, capacity=100_000, seed=0)
    _insert_repeatedly(client, "created", _FRAMES, 1_000)  # memory for the next one to release


def _sampling(address: str, client: Client) -> Iterator[_Load]:
    """Batches of many bytes, and of many keys."""
    stream = BatchStream(address, "frames", _FRAMES_BATCH, 0.4, credit=2, request_timeout_seconds=120.0)
    yield _repeat("sample 0.65 GB", stream.next)
    stream.close()
    batch = BatchBuffer(SIGNATURE, _KEYS)
    yield _repeat(f"sample {_KEYS} keys", lambda: client.sample_into(TABLE, batch.view, 0.4))


def _updates(client: Client) -> _Load:
    batch = BatchBuffer(SIGNATURE, _KEYS)
    client.sample_into(TABLE, batch.view, 0.4)
    priority = np.random.default_rng(0).random(_KEYS, np.float32)
    return _repeat(f"update {_KEYS} priorities", lambda: client.update_priorities(TABLE, batch.arrays.key, priority))


def _large_insert(client: Client) -> _Load:
    client.open_table("large", _LARGE, fresh=True, capacity=4 * _LARGE_STEPS, seed=0)
    writer = ChunkWriter(_LARGE, n_step=1, discount=0.99, chunk_steps=_LARGE_STEPS)
    frame = np.ones(_LARGE.observation_shape, np.uint8)
    writer.start(frame)
    for _ in range(_LARGE_STEPS):
        writer.append(0, 1.0, frame, False, False, 0.0, 0.0)
    writer.flush()
    data = sent_as(bytearray(writer.take()[0]), 0, 0)
    return _repeat("insert a chunk of 64 MiB", lambda: client.insert("large", data))


def _gradients(address: str) -> _Load:
    model = ShardedModel([address], "large", _PARAMETERS, shards=_SHARDS, request_timeout_seconds=120.0)
    parameters = np.zeros(_PARAMETERS, np.float32)
    model.open(OptimizerOptions("adam", learning_rate=1e-6), parameters, fresh=True)
    model.fetch_into(parameters)
    gradient = np.full(_PARAMETERS, 1e-3, np.float32)
    return _repeat(f"push {_PARAMETERS / 1e6:.0f} M gradients", lambda: model.push(gradient))


def _rows(load: _Load, waits: _Waits, idle_begin: float, idle_end: float) -> list[Row]:
    """The longest wait in each request, compared with idle times of the same length."""
    length = statistics.median(end - begin for begin, end in load.spans)
    idle = [waits.longest(begin, begin + length) for begin in np.arange(idle_begin, idle_end - length, length)]
    longest = [waits.longest(begin, end) for begin, end in load.spans]
    median, peer = 1e3 * statistics.median(longest), 1e3 * statistics.median(idle)
    name = f"{load.name} ({1e3 * (length - _PAUSE_SECONDS):.0f} ms)"
    return [
        at_most(f"{name}: longest wait, median", "ms", median, _LIMIT_MILLISECONDS, "without it", peer),
        Row(f"{name}: longest wait, maximum", "ms", 1e3 * max(longest), "without it", 1e3 * max(idle)),
    ]


def main() -> int:
    """Measures, prints and writes results/stalls.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace")
    warn_if_busy()
    return report("stalls", measure_stalls())


if __name__ == "__main__":
    run(main)
