"""Times of a gradient, of its push and of the fetch of parameters.

As a program it is the worker, with the network of Ong et al. After its settings it reads the names of measurements.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Optimizer, OptimizerOptions, ShardedModel
from headrace.algorithms.engine import limit_torch_threads
from headrace.errors import LaunchError
from headrace.gradients.base import Applied
from headrace.studies.downpour import server
from headrace.studies.downpour.server import ServerCase, ShardCounts, Transport
from headrace.studies.downpour.training import ONG
from headrace.studies.processes import Process, answer, received
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["COLUMNS", "TimingCase", "figures_of", "measure_timing"]

_START_SECONDS = 120.0
_ANSWER_SECONDS = 300.0
_SETTINGS = replace(ONG, target_update_period=1_000_000)
"""Settings of the timed gradients, whose target network never changes."""
_MEASUREMENTS = ("gradients", "pushes", "limits")

_CASE = ("pixels", "transport", "round")
COLUMNS = (
    *_CASE,
    *("batch_size", "parameters", "message_mb", "gradients"),
    *("gradient_ms", "push_ms", "apply_ms", "move_ms", "fetch_ms", "share"),
    *("pushes", "busy_push_ms", "busy_apply_ms", "updates_per_second"),
    *("pass_ms", "copy_ms", "apply_alone_ms", "apply_passes", "apply_alone_passes"),
)
"""Columns of a row of figures_of()."""


@dataclass(frozen=True)
class TimingCase(ServerCase):
    """One worker with their network: a loop of gradient, push and fetch; then pushes alone."""

    prefix = "timing"

    seconds: float
    """Duration of each of the two loops, which have at least a few turns."""
    round: int

    def __str__(self) -> str:
        return f"{self.pixels} x {self.pixels} pixels, {self.transport}"


@dataclass(frozen=True)
class _Settings:
    address: str
    transport: Transport
    pixels: int
    seconds: float
    """Duration of each measurement."""


def measure_timing(case: TimingCase) -> dict[str, Any]:
    """One row; raises LaunchError if a process ends or does not answer in time."""
    with tempfile.TemporaryDirectory(prefix="headrace-study-") as name, server.start_server(Path(name)) as standing:
        settings = _Settings(standing.address(case.transport), case.transport, case.pixels, case.seconds)
        with Process.of_module(__name__, Path(name), settings, name="the worker") as worker:
            worker.hear("ready", _START_SECONDS)
            records, counts = {}, [standing.counts()]
            for part in _MEASUREMENTS:
                worker.say(part)
                records[part] = worker.record(_ANSWER_SECONDS)
                counts.append(standing.counts())
    return figures_of(case, records, counts)


def figures_of(case: TimingCase, records: dict[str, dict[str, float]], counts: list[ShardCounts]) -> dict[str, Any]:
    """The figures, from the worker's records and the server's counts before, between and after its two loops.

    The worker's times are medians. The server's are means, because it keeps only a sum; the transfer is the rest of
    the push's mean.
    """
    turns, pushes, limits = (records[part] for part in _MEASUREMENTS)
    apply_ms, busy_apply_ms = (1e3 * counts[turn].seconds_each(counts[turn - 1]) for turn in (1, 2))
    gradient_ms, push_ms, fetch_ms = (1e3 * turns[part] for part in ("gradient", "push", "fetch"))
    pass_ms, copy_ms, alone_ms = (1e3 * limits[part] for part in ("pass", "copy", "apply"))
    return {
        **{name: getattr(case, name) for name in _CASE},
        "batch_size": ONG.batch_size,
        "parameters": int(turns["parameters"]),
        "message_mb": turns["parameters"] * server.FLOAT_BYTES / 1e6,
        "gradients": int(turns["count"]),
        "gradient_ms": gradient_ms,
        "push_ms": push_ms,
        "apply_ms": apply_ms,
        "move_ms": 1e3 * turns["push_mean"] - apply_ms,
        "fetch_ms": fetch_ms,
        "share": (push_ms + fetch_ms) / gradient_ms,
        "pushes": int(pushes["count"]),
        "busy_push_ms": 1e3 * pushes["push"],
        "busy_apply_ms": busy_apply_ms,
        "updates_per_second": 1 / pushes["mean"],
        "pass_ms": pass_ms,
        "copy_ms": copy_ms,
        "apply_alone_ms": alone_ms,
        "apply_passes": busy_apply_ms / pass_ms,
        "apply_alone_passes": alone_ms / pass_ms,
    }


@dataclass
class _TimedVector:
    """A model's parameters in a server; implements `ParameterVector` and records the seconds of each call."""

    parameter_sets = 1

    model: ShardedModel
    initial: NDArray[np.float32]
    version: int = 0
    push_seconds: list[float] = field(default_factory=list)
    fetch_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = self.initial.copy()
        self.gradient = np.zeros_like(self.parameters)

    def pull(self) -> int:
        """Fetches the newest parameters on every call."""
        begin = time.perf_counter()
        self.version = self.model.fetch_into(self.parameters) or self.version
        self.fetch_seconds.append(time.perf_counter() - begin)
        return self.version

    def apply(self) -> Applied:
        """Pushes the gradient; raises LaunchError if it was not applied."""
        begin = time.perf_counter()
        version, staleness, verdict = self.model.push(self.gradient)
        self.push_seconds.append(time.perf_counter() - begin)
        if verdict != "accepted":
            raise LaunchError(f"a gradient of random frames was {verdict}; each must be accepted to be timed")
        return Applied(version, staleness)

    def state(self) -> dict[str, Array]:
        """Empty: nothing is saved."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Does nothing: nothing was saved."""

    def close(self) -> None:
        """Closes the connections."""
        self.model.close()


class _Worker:
    """The network, its vector in the server, and one batch that is used repeatedly. One thread."""

    def __init__(self, settings: _Settings) -> None:
        self._seconds = settings.seconds
        spec = server.spec_of(settings.pixels)

        def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> _TimedVector:
            self._vector = _TimedVector(server.open_model(settings.address, settings.transport, initial), initial)
            return self._vector

        self._updater = _SETTINGS.make_updater(spec, "cpu", 0, open_vector)
        limit_torch_threads(1)
        self._batch = self._updater.transfer(_random_batch(spec, ONG.batch_size))
        self._update()  # the first one warms up

    def gradients(self) -> dict[str, float]:
        """Repeats fetch, gradient and push; median seconds of each, and the number of turns."""
        pushes, fetches = self._vector.push_seconds, self._vector.fetch_seconds
        pushes.clear()
        fetches.clear()
        turns = server.repeat(self._update, self._seconds)
        rest = [turn - push - fetch for turn, push, fetch in zip(turns, pushes, fetches, strict=True)]
        return {
            "parameters": len(self._vector.parameters),
            "count": len(turns),
            "gradient": median(rest),
            "push": median(pushes),
            "push_mean": mean(pushes),
            "fetch": median(fetches),
        }

    def pushes(self) -> dict[str, float]:
        """Pushes the same gradient repeatedly, as fast as the server takes it."""
        self._vector.push_seconds.clear()
        server.median_seconds(self._vector.apply, self._seconds)
        every = self._vector.push_seconds
        return {"count": len(every), "push": median(every), "mean": mean(every)}

    def limits(self) -> dict[str, float]:
        """Median seconds of a pass over memory, a copy of a gradient, and the optimizer alone, which take turns."""
        memory = server.MemoryPass(len(self._vector.parameters))
        optimizer = Optimizer(server.OPTIMIZER, len(memory.parameters))
        calls: dict[str, Callable[[], None]] = {
            "pass": memory.run,
            "copy": memory.copy,
            "apply": lambda: optimizer.apply(memory.parameters, memory.gradient),
        }
        seconds = self._seconds / (server.LEAST_CALLS * len(calls))
        rounds = [
            {name: server.median_seconds(call, seconds) for name, call in calls.items()}
            for _ in range(server.LEAST_CALLS)
        ]
        return {name: median(each[name] for each in rounds) for name in calls}

    def _update(self) -> None:
        self._updater.update(self._batch)


def _random_batch(spec: EnvironmentSpec, size: int) -> Batch:
    """A random batch: B transitions [B, K, *O]."""
    rng = np.random.default_rng(0)
    observation, following = (rng.integers(0, 256, (size, *spec.input_shape), np.uint8) for _ in range(2))
    one = np.ones(size, np.float32)
    return Batch(
        observation=observation,
        next_observation=following,
        action=rng.integers(0, spec.actions, size),
        reward=rng.standard_normal(size, np.float32),
        discount=one * np.float32(ONG.discount),
        weight=one,
        probability=one / np.float32(size),
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.zeros(size, np.uint64),
    )


def _work() -> None:
    worker = _Worker(received(_Settings))
    answer("ready")
    for line in sys.stdin:
        answer(getattr(worker, line.strip())())


if __name__ == "__main__":
    _work()
