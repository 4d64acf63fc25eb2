"""A process that pushes gradients without computing them, to measure the rate of a server.

It reads its settings from standard input, PusherSettings as JSON; prints "ready"; reads a window,
{"begin": s, "end": s} of time.monotonic(); pushes until its end; and prints its counts within the window as JSON.
"""

import json
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from headrace.errors import LaunchError
from headrace.studies.downpour.cases import Transport
from headrace.studies.downpour.server import open_model

__all__ = ["PusherSettings", "main"]

_SCALE = 1e-3  # scale of a gradient's elements


@dataclass(frozen=True)
class PusherSettings:
    """Address of the server, and transport of the gradients."""

    address: str
    transport: Transport
    parameters: int
    shards: int
    fetches: bool
    """Whether it fetches before each push, like a worker with fetch period 1."""
    seed: int


def main() -> None:
    """Runs the pusher."""
    settings = PusherSettings(**json.loads(sys.stdin.readline()))
    gradient = np.random.default_rng(settings.seed).standard_normal(settings.parameters, np.float32) * np.float32(
        _SCALE
    )
    values = np.zeros_like(gradient)
    model = open_model(settings.address, settings.transport, values, settings.shards)
    model.fetch_into(values)
    print("ready", flush=True)
    window = json.loads(sys.stdin.readline())
    pushes: list[float] = []
    fetches: list[float] = []
    staleness = 0
    while (begin := time.monotonic()) < window["end"]:
        if settings.fetches:
            model.fetch_into(values)
        middle = time.monotonic()
        _, late, verdict = model.push(gradient)
        if verdict != "accepted":
            raise LaunchError(f"a gradient was {verdict}; each must be accepted to be counted")
        end = time.monotonic()
        if begin >= window["begin"] and end <= window["end"]:
            fetches.append(middle - begin)
            pushes.append(end - middle)
            staleness += late
    record = {
        "updates": len(pushes),
        "push": statistics.median(pushes) if pushes else None,
        "fetch": statistics.median(fetches) if fetches and settings.fetches else None,
        "staleness": staleness,
    }
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
