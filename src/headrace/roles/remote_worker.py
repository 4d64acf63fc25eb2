"""A worker in a separate process, with its parameters elsewhere."""

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.environments import describe, require_spec
from headrace.errors import ClosedError, LaunchError
from headrace.fields import read_json, write_json
from headrace.gradients.base import OpenVector, ParameterVector
from headrace.gradients.measured import MeasuredVector, joint_report
from headrace.gradients.place import VectorPlace
from headrace.replay import ReplayTable, Table
from headrace.roles.actor import ActorSettings, table_signature
from headrace.roles.base import TABLE, Role, Stop, Worker
from headrace.roles.gate import GateWatch
from headrace.roles.reporter import ActorReporter
from headrace.roles.rollout_worker import RolloutWorker
from headrace.roles.worker import ReplayWorker
from headrace.servers import Endpoint, RoleServer, connect_tables

__all__ = ["WorkerSettings", "build_worker", "keep_to_one_thread", "run_worker", "updater_seed"]

_GENERATION_STRIDE = 1_000_003


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of one worker; sent as JSON."""

    acting: ActorSettings
    workers: int
    places: tuple[VectorPlace, ...]
    """Places of the parameter vectors, in the order in which the updater opens them."""
    table: dict[str, Any] | None
    """Options of the worker's own table; None if it shares the server's table or needs none."""
    update_seed: int
    """Seed of the updater's random numbers. The first worker's is that of the serial topology."""

    def to_json(self) -> str:
        """The settings as JSON."""
        return write_json(self)

    @staticmethod
    def from_json(text: str) -> "WorkerSettings":
        """Reads what to_json() wrote."""
        return read_json(WorkerSettings, text, "a worker's settings")


def updater_seed(seed: int, number: int) -> int:
    """Seed of the updater's random numbers: of worker `number`, or of a worker's start `number`; 0 keeps `seed`."""
    return (
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1)) if number else seed
    )


def keep_to_one_thread() -> None:
    """Makes torch compute in the calling thread only; raises LaunchError if torch keeps more threads.

    More threads than cores are what limits most published speedups.
    """
    torch.set_num_threads(1)
    if torch.get_num_threads() != 1:
        raise LaunchError(f"torch computes with {torch.get_num_threads()} threads; a worker must have one")


def build_worker(
    settings: WorkerSettings, open_vector: OpenVector, table: ReplayTable | None, first_step: int = 0
) -> Worker:
    """Builds a worker for the algorithm; `table` is None for an algorithm without replay."""
    acting = settings.acting
    algorithm = acting.algorithm
    require_spec(acting.environment, describe(acting.environment), acting.spec)
    updater = algorithm.make_updater(acting.spec, torch.device("cpu"), settings.update_seed, open_vector)
    if algorithm.rollouts is not None:
        return RolloutWorker(
            acting.environment,
            len(acting.exploration),
            algorithm.rollouts,
            updater,
            seed=acting.seed,
            first_environment=acting.first_environment,
        )
    assert algorithm.replay is not None
    assert table is not None
    return ReplayWorker(acting, algorithm.replay, updater, table, workers=settings.workers, first_step=first_step)


def run_worker(role: Role, server: RoleServer, report_server: RoleServer, endpoint: Endpoint, stop: Stop) -> None:
    """Acts and learns until stopped, until the gate closes or until the server is gone. It owns both connections.

    A restarted worker gathers new experience, continues with the newest parameters, and explores according to the steps
    of all workers.
    """
    keep_to_one_thread()
    settings = _of_generation(WorkerSettings.from_json(role.settings), role.generation)
    acting = settings.acting
    with contextlib.suppress(ClosedError), contextlib.ExitStack() as ends:
        gate = GateWatch(server, role.index, stop)
        if gate.wait() is None:
            return
        vectors: list[MeasuredVector] = []

        def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
            place = settings.places[len(vectors)]
            vectors.append(place.open(initial, options, endpoint, role.index, acting.seed))
            ends.callback(vectors[-1].close)
            return vectors[-1]

        table: ReplayTable | None = None
        if settings.table is not None:
            table = Table(table_signature(acting.spec), **settings.table)
        elif acting.algorithm.replay is not None:
            tables = ends.enter_context(contextlib.closing(connect_tables(endpoint)))
            table = tables.table(endpoint.name(TABLE))
        worker = build_worker(settings, open_vector, table, gate.steps)
        ends.callback(worker.close)
        own = table if isinstance(table, Table) else None
        reporter = ActorReporter(
            report_server, role, acting, worker.clock, lambda: _report(worker, vectors, own), hang_seconds=None
        )
        ends.callback(reporter.close)
        worker.skip(perf_counter() - worker.clock.entered)  # construction does not count as work
        while (held := gate.wait()) is not None:
            worker.skip(held)
            before = worker.steps
            worker.step()
            reporter.count(worker.steps - before, worker.take_episodes())


def _of_generation(settings: WorkerSettings, generation: int) -> WorkerSettings:
    """Returns the settings with seeds that no earlier generation used: a restarted worker plays other episodes."""
    seed = settings.acting.seed + _GENERATION_STRIDE * generation
    table = (
        None
        if settings.table is None
        else {**settings.table, "seed": settings.table["seed"] + _GENERATION_STRIDE * generation}
    )
    return dataclasses.replace(
        settings,
        acting=dataclasses.replace(settings.acting, seed=seed),
        table=table,
        update_seed=updater_seed(settings.update_seed, generation),
    )


def _report(worker: Worker, vectors: Sequence[MeasuredVector], table: Table | None) -> dict[str, Any]:
    """What a worker reports in addition to an actor's report: learning totals and the contents of its replay."""
    loss, stats = worker.learner.loss, table.stats() if table is not None else {}
    totals = {
        "updates": worker.learner.steps,
        **joint_report(vectors),
        **{name: stats[name] for name in ("samples", "inserts") if stats},
        "seconds": dict(worker.learner.clock.seconds),
    }
    held = {name: stats[name] for name in ("size", "capacity", "used_bytes") if stats}
    return {"learning": totals, "replay": held, "loss": loss if isfinite(loss) else None}
