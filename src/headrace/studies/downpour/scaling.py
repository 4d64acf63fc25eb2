"""Measures a server's updates per second with several pushers, and their upper bounds.

As a program it is one pusher: it pushes gradients without computing them, and counts those within the window.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import LaunchError
from headrace.machine import available_cores
from headrace.report.formats import counted
from headrace.studies.downpour import server
from headrace.studies.downpour.server import ServerCase, ShardCounts, Transport
from headrace.studies.processes import Process, Window, answer, open_window, received
from headrace.studies.statistics import median

__all__ = ["COLUMNS", "Limits", "ScalingCase", "figures_of", "measure_scaling"]

_START_SECONDS = 60.0
_SCALE = np.float32(1e-3)  # of a gradient's elements

_CASE = ("pixels", "transport", "pushers", "shards", "round", "seconds")
COLUMNS = (
    *("pixels", "transport", "pushers", "shards", "fetches", "round", "parameters", "seconds"),
    *("updates_per_second", "push_ms", "fetch_ms", "apply_ms", "staleness"),
    *("memory_bound_per_second", "socket_bound_per_second", "bound_share"),
)
"""Columns of a row of figures_of()."""


@dataclass(frozen=True)
class ScalingCase(ServerCase):
    """Processes that push gradients without computing them, and fetch after each one or never."""

    prefix = "scaling"

    pushers: int
    shards: int
    fetches: bool
    seconds: float
    round: int

    def __str__(self) -> str:
        fetches = ", with fetches" if self.fetches else ""
        return f"{self.transport}, {counted(self.pushers, 'pusher')}, {counted(self.shards, 'shard')}{fetches}"


class Limits(NamedTuple):
    """Upper bounds of this machine, measured in the same run."""

    pass_seconds: float
    """Seconds of one pass over the memory of an update, on one core."""
    socket_rate: float
    """Gradients per second over as many bare connections; small frames for gradients in shared memory."""


@dataclass(frozen=True)
class _Pusher:
    address: str
    transport: Transport
    parameters: int
    shards: int
    fetches: bool
    """Whether it fetches before each push, like a worker with fetch period 1."""
    seed: int


def measure_scaling(case: ScalingCase) -> dict[str, Any]:
    """One row; raises LaunchError if a process ends or does not answer in time."""
    parameters = server.parameter_count(case.pixels)
    memory = server.MemoryPass(parameters)
    limits = Limits(
        server.median_seconds(memory.run, case.seconds / 4),
        server.bare_rate(case.transport, case.pushers, parameters * server.FLOAT_BYTES, case.seconds / 2),
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-study-")))
        standing = stack.enter_context(server.start_server(folder))
        settings = (standing.address(case.transport), case.transport, parameters, case.shards, case.fetches)
        pushers = [
            stack.enter_context(
                Process.of_module(__name__, folder, _Pusher(*settings, seed=index), name=f"pusher {index}")
            )
            for index in range(case.pushers)
        ]
        for pusher in pushers:
            pusher.hear("ready", _START_SECONDS)
        before = standing.counts()
        open_window(pushers, case.seconds)
        records = [pusher.record(case.seconds + _START_SECONDS) for pusher in pushers]
        after = standing.counts()
    return figures_of(case, parameters, limits, records, (before, after))


def figures_of(
    case: ScalingCase,
    parameters: int,
    limits: Limits,
    records: Sequence[dict[str, Any]],
    counts: tuple[ShardCounts, ShardCounts],
) -> dict[str, Any]:
    """The figures of pushers and server. Raises LaunchError if a pusher had no gradient applied in the window.

    The memory's bound: each shard applies its updates one after another, each with a pass over its slice, and shards
    work in parallel as far as there are cores. A worker that waits for each answer reaches less.
    """
    for index, record in enumerate(records):
        if not record["updates"]:
            raise LaunchError(f"pusher {index} made no update in {case.seconds:g} s; a longer window is required")
    updates = sum(record["updates"] for record in records)
    rate = updates / case.seconds
    memory_bound = min(case.shards, available_cores()) / limits.pass_seconds
    before, after = counts
    return {
        **{name: getattr(case, name) for name in _CASE},
        "fetches": int(case.fetches),
        "parameters": parameters,
        "updates_per_second": rate,
        "push_ms": 1e3 * median([record["push"] for record in records]),
        "fetch_ms": 1e3 * median([record["fetch"] for record in records]) if case.fetches else None,
        "apply_ms": 1e3 * case.shards * after.seconds_each(before),
        "staleness": sum(record["staleness"] for record in records) / updates,
        "memory_bound_per_second": memory_bound,
        "socket_bound_per_second": limits.socket_rate,
        "bound_share": rate / min(memory_bound, limits.socket_rate),
    }


def _push() -> None:
    settings = received(_Pusher)
    gradient = np.random.default_rng(settings.seed).standard_normal(settings.parameters, np.float32) * _SCALE
    values = np.zeros_like(gradient)
    model = server.open_model(settings.address, settings.transport, values, settings.shards)
    model.fetch_into(values)
    answer("ready")
    window = received(Window)
    pushes: list[float] = []
    fetches: list[float] = []
    staleness = 0
    while (begin := time.monotonic()) < window.end:
        if settings.fetches:
            model.fetch_into(values)
        middle = time.monotonic()
        _, late, verdict = model.push(gradient)
        if verdict != "accepted":
            raise LaunchError(f"a gradient was {verdict}; each must be accepted to be counted")
        end = time.monotonic()
        if begin >= window.begin and end <= window.end:
            fetches.append(middle - begin)
            pushes.append(end - middle)
            staleness += late
    push = statistics.median(pushes) if pushes else None
    fetch = statistics.median(fetches) if fetches and settings.fetches else None
    answer({"updates": len(pushes), "push": push, "fetch": fetch, "staleness": staleness})


if __name__ == "__main__":
    _push()
