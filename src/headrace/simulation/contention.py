"""Measures by how much busy cores slow each other: by shared caches, memory and clock, or as threads of one core."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from headrace.algorithms.config import Algorithm
from headrace.algorithms.engine import limit_torch_threads
from headrace.errors import LaunchError
from headrace.launch.processes import child_environment
from headrace.machine import available_cores
from headrace.simulation.lone_worker import open_lone_worker

__all__ = ["measure_contention"]

_ROWS = 16
_READY = "ready"


def measure_contention(environment: str, algorithm: Algorithm, seconds: float) -> float:
    """How much longer a worker's turns take with all cores busy, relative to one busy core; 0 with a single core.

    Makes the same turns twice, of about `seconds` of processor time each: alone, and next to a process for each other
    core that makes the same ones. Raises LaunchError if one of these does not start.
    """
    others = available_cores() - 1
    if not others:
        return 0.0
    turns, alone = _make_turns(environment, algorithm, lambda turns, spent: spent < seconds)
    with _companions(others, environment, algorithm):
        _, together = _make_turns(environment, algorithm, lambda done, spent: done < turns)
    return max(0.0, together / alone - 1)


def _make_turns(environment: str, algorithm: Algorithm, goes_on: Callable[[int, float], bool]) -> tuple[int, float]:
    """Makes turns while `goes_on(turns, processor seconds)`; returns both."""
    turns, spent = 0, 0.0
    with open_lone_worker(environment, algorithm, _ROWS) as worker:
        begin = time.thread_time()
        while goes_on(turns, spent):
            worker.step()
            turns, spent = turns + 1, time.thread_time() - begin
    return turns, spent


@contextlib.contextmanager
def _companions(count: int, environment: str, algorithm: Algorithm) -> Iterator[None]:
    """A context in which so many processes make turns."""
    command = [sys.executable, "-m", __name__, environment, json.dumps(algorithm.to_record())]
    with contextlib.ExitStack() as ends:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment()
            )
            ends.enter_context(process)  # waits for its end
            ends.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != _READY:
                raise LaunchError("a process that keeps a core busy does not start")
        yield


def main() -> None:
    """Makes turns until the parent process ends it, or ends itself."""
    environment, record = sys.argv[1], json.loads(sys.argv[2])
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()  # until the parent's end of it is closed
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    limit_torch_threads(1)
    with open_lone_worker(environment, Algorithm.from_record(record), _ROWS) as worker:
        print(_READY, flush=True)
        while not ended.is_set():
            worker.step()


if __name__ == "__main__":
    main()
