"""Gradients applied in the server: an update against a pass over its memory, and updates per second over sockets."""

import functools
from collections.abc import Callable
from time import perf_counter

import numpy as np

from benchmarks.limits import BareConnection, bare_connection, memory_pass
from benchmarks.measure import (
    Row,
    at_least,
    at_most,
    faster,
    make_parser,
    report,
    require,
    run,
    take_turns,
    warn_if_busy,
)
from benchmarks.standing import standing_server
from headrace._native import Client, OptimizerOptions, ShardedModel
from headrace.types import Array

_COUNTS = (228_132, 621_348, 2_194_212, 8_480_000)
"""Parameters of the networks of Ong et al. (2015)."""
_REQUIRED = {"socket": 1000, "shared memory": 2000}
_FLOATS = 30_000_000  # of a turn
_OPTIMIZER = OptimizerOptions("rmsprop", learning_rate=1e-6)


class _Worker:
    """A model on the server and a worker's calls."""

    def __init__(self, address: str, count: int, shards: int, share: bool) -> None:
        self.name = f"{count}-{shards}-{share}-{address}"
        self.model = ShardedModel([address], self.name, count, shards=shards, share=share)
        self.parameters = np.zeros(count, np.float32)
        self.gradient = np.full(count, 1e-3, np.float32)
        self.model.open(_OPTIMIZER, self.parameters, fresh=True)
        self.model.fetch_into(self.parameters)
        self.updates = max(5, _FLOATS // count)

    def push(self) -> float:
        """Seconds of a push without a fetch."""
        return _seconds_each(lambda: self.model.push(self.gradient), self.updates)

    def push_and_fetch(self) -> float:
        """Seconds of a push and a fetch of the new parameters."""

        def update() -> None:
            self.model.push(self.gradient)
            self.model.fetch_into(self.parameters)

        return _seconds_each(update, self.updates)


def measure_shards() -> list[Row]:
    """Measures each size separately; the server is `headrace serve`."""
    rows: list[Row] = []
    with standing_server() as addresses, bare_connection("unix") as unix, bare_connection("tcp", 1 << 20) as tcp:
        client = Client(addresses["unix"])
        for count in _COUNTS:
            rows += _updates(count, client, addresses, {"unix": unix, "tcp": tcp})
            client.drop(f"{count}-")
    return rows


def _updates(count: int, client: Client, addresses: dict[str, str], bare: dict[str, BareConnection]) -> list[Row]:
    workers = {
        "shared memory": _Worker(addresses["unix"], count, 1, True),
        "shared memory, 2 shards": _Worker(addresses["unix"], count, 2, True),
        "socket": _Worker(addresses["unix"], count, 1, False),
        "tcp": _Worker(addresses["tcp"], count, 1, False),
    }
    run_pass = memory_pass(count)
    received = [np.zeros(4 * count, np.uint8)]
    source, target = workers["socket"].gradient, np.zeros(count, np.float32)
    updates = workers["socket"].updates
    turns: dict[str, Callable[[], float]] = {
        "pass": lambda: _seconds_each(run_pass, updates),
        "copy": lambda: _seconds_each(lambda: _copy(target, source), updates),
        "apply": lambda: _apply_seconds(client, workers["shared memory"]),
    }
    for name, connection in bare.items():
        turns[f"stream {name}"] = functools.partial(_stream, connection, received, updates)
    for name, worker in workers.items():
        turns[f"push {name}"] = worker.push
        turns[f"both {name}"] = worker.push_and_fetch
    seconds = take_turns(turns, repeats=5)
    for worker in workers.values():
        worker.model.close()

    size = f"{count:,} parameters"
    microseconds = {name: 1e6 * each for name, each in seconds.items()}
    rows = [
        at_most(
            f"{size}: applied in the server",
            "us",
            microseconds["apply"],
            1.5,
            "C pass over as much memory",
            microseconds["pass"],
            scale=True,
        )
    ]
    copies = seconds["pass"] + seconds["copy"]
    limits = {
        "shared memory": ("C pass and copies", copies, copies + 2 * seconds["copy"]),
        "shared memory, 2 shards": ("C pass and copies", copies, copies + 2 * seconds["copy"]),
        "socket": ("C stream of as many bytes", seconds["stream unix"], 2 * seconds["stream unix"]),
        "tcp": ("C stream of as many bytes", seconds["stream tcp"], 2 * seconds["stream tcp"]),
    }
    for name, (limit, one_way, both_ways) in limits.items():
        rows.append(faster(f"{size}: {name}, push", seconds[f"push {name}"], limit, one_way))
        rows.append(faster(f"{size}: {name}, push and fetch", seconds[f"both {name}"], limit, both_ways))
    if count == _COUNTS[0]:
        rows += [
            at_least(f"{size}: {name}, push and fetch", "updates/s", 1 / seconds[f"both {name}"], "wanted", wanted, 1)
            for name, wanted in _REQUIRED.items()
        ]
    return rows


def _apply_seconds(client: Client, worker: _Worker) -> float:
    """Seconds of one update, measured by the server."""

    def applied() -> tuple[float, int]:
        shard = client.stats()["shards"][f"{worker.name}/0"]
        return shard["apply_seconds"], shard["accepted"]

    seconds, updates = applied()
    worker.push()
    seconds_then, updates_then = applied()
    return (seconds_then - seconds) / (updates_then - updates)


def _copy(target: Array, source: Array) -> None:
    target[:] = source


def _stream(connection: BareConnection, buffers: list[Array], count: int) -> float:
    begin = perf_counter()
    connection.receive(buffers, count)
    return (perf_counter() - begin) / count


def _seconds_each(call: Callable[[], object], count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - begin) / count


def main() -> int:
    """Measures, prints and writes results/shards.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace")
    warn_if_busy()
    return report("shards", measure_shards())


if __name__ == "__main__":
    run(main)
