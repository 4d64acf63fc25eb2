"""Measures what the work of a run costs on this machine."""

import dataclasses
import json
import math
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.algorithms.config import Algorithm
from headrace.algorithms.engine import limit_torch_threads
from headrace.clock import World, inhabit
from headrace.environments import describe
from headrace.errors import ConfigError
from headrace.gradients.served import add_gradient
from headrace.launch.processes import child_environment
from headrace.launch.simulated.costs import WORK, Cost
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.parameters.form import PolicyEncoder
from headrace.report.output import write_output
from headrace.roles.clock import LEARNER_PHASES
from headrace.simulation.contention import measure_contention
from headrace.simulation.lone_worker import open_lone_worker
from headrace.simulation.requests import measure_requests
from headrace.training.hardware import describe_machine

__all__ = ["Recorder", "calibrate", "fit", "write_costs"]

_ROWS = (1, 16)
"""Numbers of environments from which the cost of one more is found."""
_TURNS = 20
_HIGHEST = 0.99
"""Quantile above which times are left out: those in which the processor was interrupted."""
_VARYING = "environment"
"""Work of which no time is left out: the longest are those of resets."""
_STARTS = 3
_LEARNING = {"gradient", "poll", *LEARNER_PHASES} - {"other"}
"""Work that does not depend on the number of environments; it is measured with the larger one, as in most runs."""
_GRADIENTS = ("gradient", "apply")


class Recorder(World):
    """The machine's world, which notes the processor time between two ends of work. One thread.

    An update of several vectors has as many gradients: "gradient" is the time of all, and of all optimizer steps but
    the last, which is in "train".
    """

    def __init__(self, now: Callable[[], float] = time.thread_time) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._now = now
        self._last = now()
        self._gradients = 0.0  # of the current update

    def spend(self, work: str, count: int = 1) -> None:
        """Notes the time of this work."""
        elapsed = self._now() - self._last
        if work in _GRADIENTS:
            self._gradients += elapsed
        else:
            self.seconds[work].append(elapsed)
        if work == "train":
            self.seconds["gradient"].append(self._gradients)
            self._gradients = 0.0
        self._last = self._now()


def calibrate(environment: str, algorithm: Algorithm, seconds: float) -> dict[str, Any]:
    """Costs by kind of work, as `Costs.read()` reads them; takes about three times `seconds`.

    Acts and learns as a worker does, with 1 and with 16 environments. Raises ConfigError if the algorithm does not
    learn in workers.
    """
    if algorithm.world_model is not None:
        raise ConfigError(f"algorithm is {algorithm.name}; calibrate measures one that does not plan")
    limit_torch_threads(1)
    measured = [_measure(environment, algorithm, rows, seconds / len(_ROWS)) for rows in _ROWS]
    costs = {
        name: (
            _cost(measured[-1][name])
            if name in _LEARNING
            else fit([each[name] for each in measured], _ROWS, 1.0 if name == _VARYING else _HIGHEST)
        )
        for name in WORK
        if (measured[-1][name] if name in _LEARNING else all(each[name] for each in measured))
    }
    if not measured[-1]["train"]:
        raise ConfigError(f"seconds is {seconds:g}; more is required: the worker made no update in its share of them")
    costs["apply"] = _cost(measured[-1]["train"])  # the part of an update after the gradient
    costs |= _measure_policies(environment, algorithm)
    costs["start"] = _cost([_start_seconds() for _ in range(_STARTS)])
    requests = measure_requests(environment, algorithm, seconds / 2)
    slower = measure_contention(environment, algorithm, seconds)
    for name, cost in (("request", requests.request), ("answer", requests.answer)):  # measured with all cores busy
        costs[name] = Cost(cost.seconds / (1 + slower.contention), per_byte=cost.per_byte / (1 + slower.contention))
    about = {
        "environment": environment,
        "algorithm": algorithm.name,
        "settings": algorithm.to_record(),
        "link": requests.link,
        **describe_machine(),
    }
    return {
        "calibration": about,
        **slower._asdict(),
        **{name: dataclasses.asdict(cost) for name, cost in costs.items()},
    }


def fit(samples: Sequence[Sequence[float]], rows: Sequence[int], highest: float = _HIGHEST) -> Cost:
    """The cost whose means for the two numbers of rows are those of the samples; both parts are 0 or more.

    Times above the quantile `highest` are left out.
    """
    few, many = (_cost(each, highest) for each in samples)
    per_row = max(0.0, (many.seconds - few.seconds) / (rows[1] - rows[0]))
    return Cost(max(0.0, many.seconds - rows[1] * per_row), per_row, many.spread)


def write_costs(costs: Mapping[str, Any], path: Path) -> None:
    """Writes the file; raises StorageError."""
    write_output(path, json.dumps(costs, indent=2) + "\n")


def _cost(samples: Sequence[float], highest: float = _HIGHEST) -> Cost:
    kept = sorted(samples)[: max(1, math.ceil(highest * len(samples)))]
    mean = statistics.fmean(kept)
    return Cost(mean, spread=statistics.pstdev(kept) / mean if mean > 0 else 0.0)


def _measure(environment: str, algorithm: Algorithm, rows: int, seconds: float) -> Mapping[str, Sequence[float]]:
    """Processor seconds of each piece of work of one worker."""
    with open_lone_worker(environment, algorithm, rows) as worker:
        begin, recorder = time.thread_time(), Recorder()
        with inhabit(recorder):
            while time.thread_time() - begin < seconds:
                worker.step()
    return recorder.seconds


def _measure_policies(environment: str, algorithm: Algorithm) -> dict[str, Cost]:
    """Costs of a policy on its way from the learner to actors, and of the sum of gradients of its size."""
    updater = algorithm.make_updater(describe(environment), "cpu", 0, None)
    graph, weights = PolicyGraph(updater.architecture), updater.weights()
    data = graph.serialize(weights)
    gradient = np.zeros(sum(array.size for array in weights.values()), np.float32)
    costs = {
        "sum": _time(lambda: add_gradient(gradient, gradient)),
        "publish": _time(updater.weights),
        "encode": _time(lambda: graph.serialize(weights)),
        "session": _time(lambda: Policy(data, 1)),
    }
    if not updater.architecture.recurrent:
        encoder = PolicyEncoder(updater.architecture, "int8", 32)
        costs["quantize"] = _time(lambda: encoder.encode(weights))
    return costs


def _time(call: Callable[[], object]) -> Cost:
    """Processor seconds of a call after the first."""
    call()
    samples = []
    for _ in range(_TURNS):
        begin = time.thread_time()
        call()
        samples.append(time.thread_time() - begin)
    return _cost(samples)


def _start_seconds() -> float:
    """Processor seconds of a process that imports what a worker needs."""
    program = "import headrace.roles.remote_worker, time; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, text=True, check=True
    )
    return float(done.stdout)
