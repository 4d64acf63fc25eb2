"""A process with a share of load.py's actors, each a connection that pushes chunks at a set rate.

python -m benchmarks.load_actors OPTIONS, where OPTIONS is JSON of Options; prints JSON of Outcome.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from headrace._native import Client, Signature

__all__ = ["SIGNATURE", "TABLE", "Options", "Outcome"]

SIGNATURE = Signature((84, 84), "uint8", stack=4)
TABLE = "replay"
_SOURCES = 8


@dataclass(frozen=True)
class Options:
    """The task of one process's actors; times are time.monotonic(), which all processes share."""

    address: str
    actors: int
    frames_per_second: float  # of each
    begin: float
    counted: float  # chunks due from here to the end are counted
    end: float
    seed: int


@dataclass(frozen=True)
class Outcome:
    """The results between `counted` and the end."""

    chunks: int  # stored before the end; later ones that were due have their latencies below too
    cpu_seconds: float
    latency: list[float]  # of each insert, in seconds, from its call to its answer
    delay: list[float]  # of each insert, from when it was due to its answer


def _push(options: Options, actor: int, chunk: bytes, latency: list[float], delay: list[float]) -> int:
    """Runs one actor in one thread, which waits without the GIL; returns how many of its chunks count."""
    client = Client(options.address, 60.0, request_timeout_seconds=120.0)
    data = bytearray(chunk)
    writer = options.seed * 1_000_000 + actor + 1
    period = CHUNK_STEPS / options.frames_per_second
    due = options.begin + period * actor / options.actors
    sequence = chunks = 0
    while due < options.end:
        time.sleep(max(due - time.monotonic(), 0.0))
        sequence += 1
        sent_as(data, writer, sequence)
        begin = time.monotonic()
        client.insert(TABLE, data)
        end = time.monotonic()
        if due >= options.counted:
            latency.append(end - begin)
            delay.append(end - due)
            chunks += end <= options.end
        due = due + period if end <= options.end else options.end
    client.close()
    return chunks


def _run(options: Options) -> Outcome:
    chunks = chunks_of(SIGNATURE, make_steps(CHUNK_STEPS * _SOURCES + N_STEP, (84, 84), "uint8", options.seed))
    latency: list[float] = []
    delay: list[float] = []
    with ThreadPoolExecutor(options.actors) as threads:
        pushing = [
            threads.submit(_push, options, actor, chunks[actor % len(chunks)], latency, delay)
            for actor in range(options.actors)
        ]
        time.sleep(max(options.counted - time.monotonic(), 0.0))
        cpu = time.process_time()
    return Outcome(sum(each.result() for each in pushing), time.process_time() - cpu, latency, delay)


def main() -> None:
    """Runs the task in the argument and prints its results."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asdict(_run(Options(**options)))))


if __name__ == "__main__":
    main()
