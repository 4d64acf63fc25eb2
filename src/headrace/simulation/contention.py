"""Measures by how much busy cores slow each other: by shared caches, memory and clock, or as threads of one core."""

import time
from collections.abc import Callable

from headrace.algorithms.config import Algorithm
from headrace.machine import available_cores
from headrace.simulation.companions import ROWS, open_companions
from headrace.simulation.lone_worker import open_lone_worker

__all__ = ["measure_contention"]


def measure_contention(environment: str, algorithm: Algorithm, seconds: float) -> float:
    """How much longer a worker's turns take with all cores busy, relative to one busy core; 0 with a single core.

    Makes the same turns twice, of about `seconds` of processor time each: alone, and next to a process for each other
    core that makes the same ones. Raises LaunchError if one of these does not start.
    """
    others = available_cores() - 1
    if not others:
        return 0.0
    turns, alone = _make_turns(environment, algorithm, lambda turns, spent: spent < seconds)
    with open_companions(others, environment, algorithm):
        _, together = _make_turns(environment, algorithm, lambda done, spent: done < turns)
    return max(0.0, together / alone - 1)


def _make_turns(environment: str, algorithm: Algorithm, goes_on: Callable[[int, float], bool]) -> tuple[int, float]:
    """Makes turns while `goes_on(turns, processor seconds)`; returns both."""
    turns, spent = 0, 0.0
    with open_lone_worker(environment, algorithm, ROWS) as worker:
        begin = time.thread_time()
        while goes_on(turns, spent):
            worker.step()
            turns, spent = turns + 1, time.thread_time() - begin
    return turns, spent
