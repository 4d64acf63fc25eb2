"""A worker in a separate process, with its parameters elsewhere."""

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.config import Engine
from headrace.algorithms.engine import limit_torch_threads
from headrace.clock import monotonic
from headrace.environments import describe, require_spec
from headrace.errors import ClosedError, DivergenceError
from headrace.gradients.base import OpenVector, ParameterVector
from headrace.gradients.handles import SharedHandle, VectorHandle
from headrace.gradients.measured import MeasuredVector, joint_totals
from headrace.replay import ReplayTable, Table
from headrace.roles.acting_role import ActingRole
from headrace.roles.actor import ActorSettings
from headrace.roles.base import RoleContext, Worker, generation_seed
from headrace.roles.clock import ACTOR_PHASES, OUTAGE_SECONDS, PhaseClock
from headrace.roles.gate import GateWatch
from headrace.roles.handles import TableHandle
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import Figures, Learned, LearningTotals
from headrace.roles.reporter import ActorReporter
from headrace.roles.rollout_worker import RolloutWorker
from headrace.roles.worker import ReplayWorker
from headrace.servers import RoleServer

__all__ = ["WorkerRole", "WorkerSettings", "build_worker", "updater_seed"]


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of one worker."""

    acting: ActorSettings
    workers: int
    vectors: tuple[VectorHandle, ...]
    """The shared parameter vectors, in the order in which the updater opens them."""
    table: dict[str, Any] | None
    """Options of the worker's own table; None if it shares the server's table or needs none."""
    update_seed: int
    """Seed of the updater's random numbers. The first worker's is that of the serial topology."""
    engine: Engine = "auto"
    """What computes the updater's networks."""

    def open_table(self) -> Table | None:
        """The worker's own table; None if it has none."""
        replay = self.acting.algorithm.replay
        if self.table is None or replay is None:
            return None
        return Table(replay.table_form(self.acting.spec, self.acting.chunk_steps).signature, **self.table)


def updater_seed(seed: int, number: int) -> int:
    """Seed of the updater's random numbers: of worker `number`, or of a worker's start `number`; 0 keeps `seed`."""
    return (
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1)) if number else seed
    )


def build_worker(
    settings: WorkerSettings,
    open_vector: OpenVector,
    table: ReplayTable | None,
    first_step: int = 0,
    clock: PhaseClock | None = None,
) -> Worker:
    """Builds a worker for the algorithm; `table` is None for an algorithm without replay.

    `clock` is its own, in the phase "environment" while environments are made, and gets a beat before each constructor.
    """
    acting = settings.acting
    algorithm = acting.algorithm
    require_spec(acting.environment, describe(acting.environment), acting.spec)
    if clock is not None:
        clock.restart("other")  # importing torch and opening the vectors may take minutes
    updater = algorithm.make_updater(acting.spec, "cpu", settings.update_seed, open_vector, settings.engine)
    if clock is not None:
        clock.restart("environment")  # whose constructors may hang
    if algorithm.rollouts is not None:
        return RolloutWorker(
            acting.environment,
            len(acting.exploration),
            algorithm.rollouts,
            updater,
            seed=acting.seed,
            first_environment=acting.first_environment,
            clock=clock,
        )
    assert algorithm.replay is not None
    assert table is not None
    return ReplayWorker(
        acting, algorithm.replay, updater, table, workers=settings.workers, first_step=first_step, clock=clock
    )


@dataclass(frozen=True)
class WorkerRole(ActingRole):
    """Acts and learns until stopped or until the gate closes; a connection for reports, one for the gate.

    A restarted worker gathers new experience, continues with the newest parameters, and explores according to the steps
    of all workers.
    """

    kind: ClassVar[str] = "worker"
    ends_with_training: ClassVar[bool] = True

    settings: WorkerSettings
    replay: TableHandle | None = None
    """The table that all workers share; None if each has its own, or needs none."""

    @property
    def shares_memory(self) -> bool:
        """Whether a vector is in memory of the learner's machine."""
        return any(isinstance(vector, SharedHandle) for vector in self.settings.vectors)

    def act(self, server: RoleServer, context: RoleContext, hang_seconds: float | None = None) -> None:
        """Acts and learns in one thread, and reports in another; polls the gate over `server`."""
        settings = _of_generation(self.settings, self.generation)
        acting = settings.acting
        with contextlib.suppress(ClosedError), contextlib.ExitStack() as ends:
            gate = GateWatch(server, self.index, context.stop)
            alive = Heartbeat(self, server, context.stop, lambda: {"run_id": acting.run_id})
            if gate.wait(alive) is None:
                return
            vectors: list[MeasuredVector] = []
            worker: Worker | None = None
            diverged = ""

            def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
                handle = settings.vectors[len(vectors)]
                vectors.append(handle.open(initial, options, context.endpoint, self.index, acting.seed))
                ends.callback(vectors[-1].close)
                return vectors[-1]

            def more() -> Figures | None:
                return {"learned": _learned(worker, vectors, own, diverged)} if worker else None

            own = settings.open_table()
            clock = PhaseClock(ACTOR_PHASES, len(acting.exploration))
            clock.restart("environment")  # whose constructors may hang
            reporter = ActorReporter(context.connect(), self, acting, clock, more, hang_seconds)
            ends.push(reporter)  # if the worker can't be built
            table = context.table(self.replay) if self.replay else own
            worker = build_worker(settings, open_vector, table, gate.steps, clock)
            ends.callback(worker.close)
            limit_torch_threads(1)
            ends.callback(gate.confirm_end)
            ends.push(reporter)  # first: the run counts the reports that it has when all have confirmed
            clock.restart("other")  # construction does not count as work
            while True:
                begin = monotonic()
                held = gate.wait()
                if held is None:
                    break
                asked = monotonic() - begin - held
                worker.skip(held + asked if asked > OUTAGE_SECONDS else held)  # else it is the actor's time
                before = worker.steps
                try:
                    worker.step()
                except DivergenceError as error:
                    diverged = str(error)  # goes with the last report: the run may not see this process end
                    raise
                reporter.count(worker.steps - before, worker.take_episodes(), worker.exploration)


def _of_generation(settings: WorkerSettings, generation: int) -> WorkerSettings:
    """Returns the settings with other seeds than in the worker's earlier generations: it plays other episodes."""
    seed, table = generation_seed(settings.acting.seed, generation), settings.table
    if table is not None:
        table = {**table, "seed": generation_seed(table["seed"], generation)}
    return dataclasses.replace(
        settings,
        acting=dataclasses.replace(settings.acting, seed=seed),
        table=table,
        update_seed=updater_seed(settings.update_seed, generation),
    )


def _learned(worker: Worker, vectors: Sequence[MeasuredVector], table: Table | None, diverged: str) -> Learned:
    loss, stats = worker.learner.loss, table.stats() if table is not None else {}
    totals: LearningTotals = {
        "updates": worker.learner.steps,
        **joint_totals(vectors),
        "samples": int(stats.get("samples", 0)),
        "inserts": int(stats.get("inserts", 0)),
        "seconds": dict(worker.learner.clock.seconds),
    }
    held = {name: stats[name] for name in ("size", "capacity", "used_bytes") if stats}
    return {"totals": totals, "replay": held, "loss": loss if isfinite(loss) else None, "diverged": diverged}
