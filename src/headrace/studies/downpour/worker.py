"""The process of one worker with the network of Ong et al.: measures a gradient and its communication.

It reads its settings from standard input, WorkerSettings as JSON; prints "ready"; and for each further line
("gradients", "pushes" or "limits") makes that measurement and prints it as JSON.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import Optimizer, OptimizerOptions, ShardedModel
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.errors import LaunchError
from headrace.gradients.base import Applied
from headrace.studies.downpour.cases import Transport
from headrace.studies.downpour.limits import MemoryPass, median_seconds
from headrace.studies.downpour.server import SETTINGS, open_model, optimizer_options, spec_of
from headrace.types import Batch, EnvironmentSpec

__all__ = ["TimedVector", "WorkerSettings", "main", "random_batch"]

_LEAST = 5  # turns


@dataclass(frozen=True)
class WorkerSettings:
    """Address of the server, network, and duration of each measurement."""

    address: str
    transport: Transport
    pixels: int
    seconds: float


@dataclass
class TimedVector:
    """A model's parameters in a server; implements `ParameterVector` and records the seconds of each call."""

    model: ShardedModel
    initial: NDArray[np.float32]
    version: int = 0
    push_seconds: list[float] = field(default_factory=list)
    fetch_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = self.initial.copy()
        self.change = np.zeros_like(self.values)
        self.parameters = torch.from_numpy(self.values)
        self.gradient = torch.from_numpy(self.change)

    def pull(self) -> int:
        """Fetches the newest parameters on every call."""
        begin = time.perf_counter()
        self.version = self.model.fetch_into(self.values) or self.version
        self.fetch_seconds.append(time.perf_counter() - begin)
        return self.version

    def apply(self) -> Applied:
        """Pushes the gradient; raises LaunchError if it was not applied."""
        begin = time.perf_counter()
        version, staleness, verdict = self.model.push(self.change)
        self.push_seconds.append(time.perf_counter() - begin)
        if verdict != "accepted":
            raise LaunchError(f"a gradient of random frames was {verdict}; each must be accepted to be timed")
        return Applied(version, staleness)

    def state(self) -> dict[str, Tensor]:
        """Empty: nothing is saved."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Does nothing: nothing was saved."""

    def close(self) -> None:
        """Closes the connections."""
        self.model.close()


def random_batch(spec: EnvironmentSpec, size: int) -> Batch:
    """A random batch: B transitions [B, K, *O]."""
    rng = np.random.default_rng(0)
    observation, following = (rng.integers(0, 256, (size, *spec.input_shape), np.uint8) for _ in range(2))
    one = np.ones(size, np.float32)
    return Batch(
        observation=observation,
        next_observation=following,
        action=rng.integers(0, spec.actions, size),
        reward=rng.standard_normal(size, np.float32),
        discount=one * np.float32(SETTINGS.discount),
        weight=one,
        probability=one / np.float32(size),
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.zeros(size, np.uint64),
    )


class _Worker:
    """The network, its vector in the server, and one batch that is used repeatedly. One thread."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._seconds = settings.seconds
        spec = spec_of(settings.pixels)

        def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> TimedVector:
            self._vector = TimedVector(open_model(settings.address, settings.transport, initial), initial)
            return self._vector

        self._updater = DQNUpdater(SETTINGS, spec, torch.device("cpu"), 0, open_vector)
        self._batch = self._updater.transfer(random_batch(spec, SETTINGS.batch_size))
        self._updater.update(self._batch)  # the first one warms up

    def gradients(self) -> dict[str, float]:
        """Repeats fetch, gradient and push; median seconds of each, and the number of turns."""
        pushes, fetches = self._vector.push_seconds, self._vector.fetch_seconds
        pushes.clear()
        fetches.clear()
        turns: list[float] = []
        until = time.perf_counter() + self._seconds
        while len(turns) < _LEAST or time.perf_counter() < until:
            begin = time.perf_counter()
            self._updater.update(self._batch)
            turns.append(time.perf_counter() - begin)
        rest = [turn - push - fetch for turn, push, fetch in zip(turns, pushes, fetches, strict=True)]
        return {
            "parameters": len(self._vector.values),
            "count": len(turns),
            "gradient": statistics.median(rest),
            "push": statistics.median(pushes),
            "push_mean": statistics.mean(pushes),
            "fetch": statistics.median(fetches),
        }

    def pushes(self) -> dict[str, float]:
        """Pushes the same gradient repeatedly, as fast as the server takes it."""
        self._vector.push_seconds.clear()
        median_seconds(self._vector.apply, self._seconds, _LEAST)
        every = self._vector.push_seconds
        return {"count": len(every), "push": statistics.median(every), "mean": statistics.mean(every)}

    def limits(self) -> dict[str, float]:
        """Median seconds of a pass over memory, a copy of a gradient, and the optimizer alone, which take turns."""
        memory = MemoryPass(len(self._vector.values))
        optimizer = Optimizer(optimizer_options(), len(memory.parameters))
        calls: dict[str, Callable[[], None]] = {
            "pass": memory.run,
            "copy": memory.copy,
            "apply": lambda: optimizer.apply(memory.parameters, memory.gradient),
        }
        rounds = [
            {name: median_seconds(call, self._seconds / (_LEAST * len(calls))) for name, call in calls.items()}
            for _ in range(_LEAST)
        ]
        return {name: statistics.median(each[name] for each in rounds) for name in calls}


def main() -> None:
    """Runs the worker."""
    torch.set_num_threads(1)
    worker = _Worker(WorkerSettings(**json.loads(sys.stdin.readline())))
    measurements: dict[str, Callable[[], dict[str, float]]] = {
        "gradients": worker.gradients,
        "pushes": worker.pushes,
        "limits": worker.limits,
    }
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(measurements[line.strip()]()), flush=True)


if __name__ == "__main__":
    main()
