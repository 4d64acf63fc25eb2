"""Measures a server's updates per second with several pushers, and their upper bounds."""

import contextlib
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.errors import LaunchError
from headrace.machine import available_cores
from headrace.studies.downpour.cases import ScalingCase
from headrace.studies.downpour.limits import MemoryPass, bare_rate, median_seconds
from headrace.studies.downpour.pusher import PusherSettings
from headrace.studies.downpour.server import ShardCounts, parameter_count, start_server
from headrace.studies.processes import Process
from headrace.studies.statistics import median

__all__ = ["COLUMNS", "Limits", "figures_of", "measure_scaling"]

_PUSHER = "headrace.studies.downpour.pusher"
_START_SECONDS = 60.0
_WARM_UP_SECONDS = 0.3
_FLOAT_BYTES = 4

COLUMNS = (
    *("pixels", "transport", "pushers", "shards", "fetches", "round", "parameters", "seconds"),
    *("updates_per_second", "push_ms", "fetch_ms", "apply_ms", "staleness"),
    *("memory_bound_per_second", "socket_bound_per_second", "bound_share"),
)
"""Columns of a row of figures_of()."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Upper bounds of this machine, measured in the same run."""

    pass_seconds: float
    """Seconds of one pass over the memory of an update, on one core."""
    socket_rate: float
    """Gradients per second over as many bare connections; small frames for gradients in shared memory."""


def measure_scaling(case: ScalingCase) -> dict[str, Any]:
    """One row; raises LaunchError if a process ends or does not answer in time."""
    parameters = parameter_count(case.pixels)
    memory = MemoryPass(parameters)
    limits = Limits(
        median_seconds(memory.run, case.seconds / 4),
        bare_rate(case.transport, case.pushers, parameters * _FLOAT_BYTES, case.seconds / 2),
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-study-")))
        server = stack.enter_context(start_server(folder))
        address = server.address(case.transport)
        pushers = []
        for index in range(case.pushers):
            name = f"pusher {index}"
            pusher = Process(name, [sys.executable, "-m", _PUSHER], folder / f"{name}.log")
            pushers.append(stack.enter_context(pusher))
            settings = PusherSettings(address, case.transport, parameters, case.shards, case.fetches, index)
            pusher.tell(settings)
        for pusher in pushers:
            pusher.hear("ready", _START_SECONDS)
        before = server.counts()
        begin = time.monotonic() + _WARM_UP_SECONDS
        for pusher in pushers:
            pusher.tell({"begin": begin, "end": begin + case.seconds})
        records = [json.loads(pusher.listen(case.seconds + _START_SECONDS)) for pusher in pushers]
        after = server.counts()
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
    slices = after.accepted - before.accepted
    return {
        **{name: getattr(case, name) for name in ("pixels", "transport", "pushers", "shards")},
        "fetches": int(case.fetches),
        "round": case.round,
        "parameters": parameters,
        "seconds": case.seconds,
        "updates_per_second": rate,
        "push_ms": 1e3 * median([record["push"] for record in records]),
        "fetch_ms": 1e3 * median([record["fetch"] for record in records]) if case.fetches else None,
        "apply_ms": 1e3 * case.shards * (after.apply_seconds - before.apply_seconds) / slices,
        "staleness": sum(record["staleness"] for record in records) / updates,
        "memory_bound_per_second": memory_bound,
        "socket_bound_per_second": limits.socket_rate,
        "bound_share": rate / min(memory_bound, limits.socket_rate),
    }
