"""A worker without a run around it, whose work is measured."""

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.config import Algorithm
from headrace.environments import describe
from headrace.gradients.base import ParameterVector
from headrace.roles.base import Worker
from headrace.roles.remote_worker import build_worker
from headrace.servers import EmbeddedServer
from headrace.settings import RunConfig
from headrace.topologies.base import RunContext
from headrace.topologies.workers import Hogwild
from headrace.topologies.workers.program import worker_settings
from headrace.training.hang_watch import environment_faults, watched

__all__ = ["open_lone_worker"]

_SKIPPED_TURNS = 20


@contextlib.contextmanager
def open_lone_worker(environment: str, algorithm: Algorithm, rows: int) -> Iterator[Worker]:
    """A context with a worker of so many environments that has made some turns; equal calls make equal workers.

    Raises EnvironmentFault for what the environment raises, and if a call of it takes too long.
    """
    with contextlib.ExitStack() as undo:
        undo.enter_context(environment_faults())
        server = undo.enter_context(contextlib.closing(EmbeddedServer()))
        with watched(RunConfig.hang_seconds):
            worker = undo.enter_context(contextlib.closing(_build(environment, algorithm, rows, server)))
        undo.enter_context(watched(RunConfig.hang_seconds, worker.clock))
        for _ in range(_SKIPPED_TURNS):
            worker.step()
        yield worker


def _build(environment: str, algorithm: Algorithm, rows: int, server: EmbeddedServer) -> Worker:
    """The only worker of a run, which learns from the first batch on."""
    replay = algorithm.replay
    if replay is not None:
        algorithm = dataclasses.replace(replay, learning_starts=replay.batch_size)
    topology, spec = Hogwild(workers=1, envs_per_worker=rows), describe(environment)
    vectors = topology.open_vectors(algorithm, server.endpoint)
    updater = algorithm.make_updater(spec, "cpu", 0, vectors)
    context = RunContext(environment, spec, 0, algorithm, updater, server, vectors=vectors)
    settings = worker_settings(topology, context, 0)
    handles = iter(settings.vectors)

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        return next(handles).open(initial, options, server.endpoint, 0, 0)

    return build_worker(settings, open_vector, settings.open_table())
