"""One start of a run: what its parts in the training process share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.algorithms.base import Updater
from headrace.networks.policy_graph import PolicyGraph
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.roles.base import GENERATIONS_PER_START, Learning
from headrace.roles.totals import Totals
from headrace.servers import Endpoint, RunServer
from headrace.settings import RunConfig
from headrace.topologies.base import Program
from headrace.topologies.config import Topology
from headrace.training.assembly import Assembly
from headrace.training.clock import TrainingClock
from headrace.training.evaluation import Evaluations, Moment
from headrace.training.monitor import Monitor
from headrace.training.run_state import RunState
from headrace.types import EnvironmentSpec

__all__ = ["Session", "open_session"]


@dataclass(frozen=True)
class Session:
    """Settings, server, program, clock and counts of one start of a run, from scratch or from a checkpoint."""

    config: RunConfig
    run: RunDirectory
    display: Display
    run_id: str
    resumptions: int
    """How often the run was resumed, this start included."""
    server: RunServer
    separate_server: Endpoint | None
    """The server's endpoint if it is not part of the run."""
    spec: EnvironmentSpec
    device: str
    """The learner's."""
    updater: Updater
    program: Program
    topology: Topology
    """With settings that depend on this machine's speed resolved."""
    clock: TrainingClock
    monitor: Monitor
    totals: Totals
    evaluations: Evaluations

    @property
    def learner(self) -> Learning:
        """The program's learner."""
        return self.program.learner

    @property
    def moment(self) -> Moment:
        """The current point in training."""
        return Moment(self.monitor.environment_steps, self.learner.steps, self.clock.seconds)

    @property
    def first_generation(self) -> int:
        """The lowest generation of this start's roles."""
        return self.resumptions * GENERATIONS_PER_START

    def skip(self, seconds: float) -> None:
        """Excludes seconds that have just passed, in which nothing was trained, from the times of all roles.

        Workers notice by themselves that they are held, and a program in which the acting is done knows it.
        """
        self.program.skip(seconds)
        if self.program.actors and not self.topology.has_workers:
            self.monitor.skip(seconds)

    def policy(self) -> bytes:
        """The current policy in full precision, as a graph."""
        return self._graph.serialize(self.updater.weights())

    def record(self, kind: str, **values: Any) -> None:
        """Appends a measurement to metrics.jsonl, with the clock's seconds and the environment steps unless given."""
        now = {"seconds": self.clock.seconds, "environment_steps": self.monitor.environment_steps}
        self.run.append({"kind": kind, **now, **values})

    def record_event(self, kind: str, **values: Any) -> None:
        """Appends an event to metrics.jsonl, with the clock's seconds unless given."""
        self.run.append({"kind": kind, "seconds": self.clock.seconds, **values})

    @cached_property
    def _graph(self) -> PolicyGraph:
        return PolicyGraph(self.updater.architecture)


def open_session(
    config: RunConfig,
    run: RunDirectory,
    display: Display,
    built: Assembly,
    server: RunServer,
    separate_server: Endpoint | None,
    *,
    run_id: str,
    start: str,
    state: RunState | None,
) -> Session:
    """The session of a run, with the counts and clocks of a checkpoint's state if there is one.

    `start` is a new name for this start of the run, see `Evaluations`.
    """
    moment = state.moment if state else Moment(0, 0, 0.0)
    processes = max(1, len(built.program.actors))
    return Session(
        config=config,
        run=run,
        display=display,
        run_id=run_id,
        resumptions=state.resumptions + 1 if state else 0,
        server=server,
        separate_server=separate_server,
        spec=built.spec,
        device=built.device,
        updater=built.updater,
        program=built.program,
        topology=built.topology,
        clock=TrainingClock(moment.seconds, state.total_seconds if state else 0.0),
        monitor=Monitor(config, processes, moment, state.episodes if state else 0),
        totals=Totals(state.totals if state else None),
        evaluations=Evaluations(
            server, start, config.environment, built.spec, config.algorithm, config.seed, config.until_score
        ),
    )
