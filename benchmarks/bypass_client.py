"""The client of the benchmark of user-space networking: python -m benchmarks.bypass_client ADDRESS [TOKEN].

Prints its measurements as JSON: seconds of round trips, and bytes per second.
"""

import json
import sys
import time
from collections.abc import Callable
from time import perf_counter

import numpy as np

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps
from headrace._native import Client
from headrace.replay import BatchBuffer, Signature

_FRAME = (84, 84)
_SIGNATURE = Signature(_FRAME, "uint8", stack=4)
_STORED = 2_000
_BATCH = 512
_BATCHES = 20
_POLICY_BYTES = 13_000_000
_PULLS = 30
_TRIPS = 5_000
_PAUSED_TRIPS = 500
_PAUSE_SECONDS = 1e-3  # after which both ends of a kernel socket sleep


def _trips(call: Callable[[], object], count: int, pause_seconds: float = 0.0) -> list[float]:
    seconds = []
    for _ in range(count):
        if pause_seconds:
            time.sleep(pause_seconds)
        begin = perf_counter()
        call()
        seconds.append(perf_counter() - begin)
    return seconds


def _quantile(values: list[float], share: float) -> float:
    return float(np.quantile(values, share))


def _rate(call: Callable[[], object], count: int, size: int) -> float:
    call()  # touches its memory for the first time
    begin = perf_counter()
    for _ in range(count):
        call()
    return count * size / (perf_counter() - begin)


def _measure(client: Client) -> dict[str, float]:
    client.publish("word", bytes(8))
    client.publish("page", bytes(4096))
    client.publish("policy", bytes(_POLICY_BYTES))
    client.open_table("replay", _SIGNATURE, fresh=True, capacity=_STORED, seed=0)
    for chunk in chunks_of(_SIGNATURE, make_steps(_STORED + CHUNK_STEPS + N_STEP, _FRAME, "uint8", seed=0)):
        client.insert("replay", chunk)
    buffer = BatchBuffer(_SIGNATURE, _BATCH)
    batch_bytes = sum(field.nbytes for field in buffer.arrays)
    small = _trips(lambda: client.fetch("word", 1), _TRIPS)
    page = _trips(lambda: client.fetch("page"), _TRIPS)
    paused = _trips(lambda: client.fetch("word", 1), _PAUSED_TRIPS, _PAUSE_SECONDS)
    return {
        "small_p50": _quantile(small, 0.5),
        "small_p99": _quantile(small, 0.99),
        "page_p50": _quantile(page, 0.5),
        "page_p99": _quantile(page, 0.99),
        "paused_p50": _quantile(paused, 0.5),
        "paused_p99": _quantile(paused, 0.99),
        "pull": _rate(lambda: client.fetch("policy"), _PULLS, _POLICY_BYTES),
        "batch": _rate(lambda: client.sample_into("replay", buffer.view, 0.4), _BATCHES, batch_bytes),
    }


def main() -> None:
    """Connects, measures and prints."""
    address, *token = sys.argv[1:]
    client = Client(address, token=token[0].encode() if token else None)
    print(json.dumps(_measure(client)))
    client.close()


if __name__ == "__main__":
    main()
