"""Measures by how much busy cores slow each other, and threads that take turns on a core."""

import time
from itertools import cycle
from typing import NamedTuple

from headrace.algorithms.config import Algorithm
from headrace.machine import available_cores
from headrace.roles.base import Worker
from headrace.simulation.companions import ROWS, open_companions
from headrace.simulation.lone_worker import open_lone_worker

__all__ = ["Contention", "measure_contention"]

_BLOCK_SECONDS = 0.25
"""Processor time of the turns made under one condition before the next: a machine's speed varies within seconds."""


class Contention(NamedTuple):
    """How much longer work takes than on a machine with one busy core."""

    contention: float
    """With all cores busy, relative to one: by shared caches, memory and clock, or as threads of one core."""
    switching: float
    """With two busy processes on each core, relative to one: each finds the core's caches filled by the other."""


def measure_contention(environment: str, algorithm: Algorithm, seconds: float) -> Contention:
    """Makes the same turns alone, next to a process on each other core, and with two processes on each core.

    All processes make the turns of a worker. Takes about `seconds` of processor time, in blocks under one condition
    after the other. Raises LaunchError if a process does not start.
    """
    cores = available_cores()
    conditions = (0, cores - 1, 2 * cores - 1)  # other processes
    spent = [0.0] * len(conditions)
    with (
        open_companions(conditions[-1], environment, algorithm) as companions,
        open_lone_worker(environment, algorithm, ROWS) as worker,
    ):
        companions.resume(0)
        turns = _count_turns(worker, min(_BLOCK_SECONDS, seconds / len(conditions)))
        for index in cycle(range(len(conditions))):
            companions.resume(conditions[index])
            spent[index] += _make_turns(worker, turns)
            if index == len(conditions) - 1 and sum(spent) >= seconds:
                break
    alone, together, crowded = spent
    contention = max(0.0, together / alone - 1) if cores > 1 else 0.0
    return Contention(contention, max(0.0, crowded / together - 1))


def _count_turns(worker: Worker, seconds: float) -> int:
    """How many turns take this processor time."""
    turns, begin = 0, time.thread_time()
    while time.thread_time() - begin < seconds:
        worker.step()
        turns += 1
    return turns


def _make_turns(worker: Worker, turns: int) -> float:
    """Processor seconds of the turns."""
    begin = time.thread_time()
    for _ in range(turns):
        worker.step()
    return time.thread_time() - begin
