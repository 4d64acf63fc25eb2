"""One start of a run: what its parts in the training process share."""

from dataclasses import dataclass
from typing import Any

from headrace.algorithms.base import Updater
from headrace.networks.policy_graph import PolicyGraph
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.roles.base import Learning
from headrace.roles.totals import Totals
from headrace.servers import Endpoint, RunServer
from headrace.settings import RunConfig
from headrace.topologies.base import Program
from headrace.training.clock import TrainingClock
from headrace.training.evaluation import Evaluations, Moment
from headrace.training.monitor import Monitor
from headrace.types import EnvironmentSpec

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """Settings, server, program, clock and counts of one start of a run, from scratch or from a checkpoint."""

    config: RunConfig
    run: RunDirectory
    display: Display
    run_id: str
    resumed: int
    """How often the run was resumed before this start."""
    server: RunServer
    separate: Endpoint | None
    """The server's endpoint if it is not part of the run."""
    spec: EnvironmentSpec
    updater: Updater
    program: Program
    graph: PolicyGraph
    """Makes graphs of policies in full precision."""
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

    def policy(self) -> bytes:
        """The current policy in full precision, as a graph."""
        return self.graph.serialize(self.updater.weights())

    def record(self, kind: str, **values: Any) -> None:
        """Appends a record of this moment to the run's."""
        seconds, steps = self.clock.seconds, self.monitor.environment_steps
        self.run.append({"kind": kind, "seconds": seconds, "environment_steps": steps, **values})
