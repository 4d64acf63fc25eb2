"""A process that sends small requests all the time and measures how long each takes; see stalls.py.

python -m benchmarks.stalls_probe ADDRESS begins with a line; when its input ends, it prints JSON: for each request its
beginning, as time.monotonic(), and its seconds.
"""

import json
import sys
import threading
import time
from collections.abc import Callable

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from headrace._native import Client
from headrace.replay import BatchBuffer, Signature

__all__ = ["BLOB", "SIGNATURE", "TABLE"]

SIGNATURE = Signature((8,), "float32")
TABLE = "probed"
BLOB = "probed"
_BATCH = 32
_PAUSE_SECONDS = 0.0005


def _requests(address: str) -> list[Callable[[], object]]:
    """A request to each of the server's threads that an actor or a learner uses."""
    actor, learner = Client(address), Client(address)
    (chunk,) = chunks_of(SIGNATURE, make_steps(CHUNK_STEPS + N_STEP, (8,), "float32", seed=1))[:1]
    data = sent_as(bytearray(chunk), 0, 0)
    batch = BatchBuffer(SIGNATURE, _BATCH)
    return [
        lambda: actor.fetch(BLOB, 1),
        lambda: actor.insert(TABLE, data),
        lambda: learner.sample_into(TABLE, batch.view, 0.4),
    ]


def main() -> None:
    """Probes until its input ends."""
    requests = _requests(sys.argv[1])
    stop = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print("probing", flush=True)
    waits: list[tuple[float, float]] = []
    while not stop.is_set():
        for request in requests:
            begin = time.monotonic()
            request()
            waits.append((begin, time.monotonic() - begin))
        time.sleep(_PAUSE_SECONDS)
    print(json.dumps(waits))


if __name__ == "__main__":
    main()
