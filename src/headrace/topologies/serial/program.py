"""Acting and learning in turn, in one thread."""

from typing import Any

from headrace.algorithms.config import OnPolicy
from headrace.replay import Experience, Table
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role, Worker
from headrace.roles.clock import ACTOR_PHASES
from headrace.roles.messages import Figures
from headrace.roles.planner import Planner
from headrace.roles.rollout_worker import RolloutWorker
from headrace.roles.worker import ReplayWorker
from headrace.topologies.base import Learning, Program, RunContext
from headrace.topologies.dyna import dyna_tables, planning_worker
from headrace.topologies.experience import table_options
from headrace.topologies.serial.config import Serial

__all__ = ["SerialProgram"]


class SerialProgram(Program):
    """One worker in the training process."""

    deterministic = True

    def __init__(self, config: Serial, context: RunContext) -> None:
        self.actors: list[Role] = []
        self.services: list[Role] = []
        self.table: Experience
        self._worker: Worker
        self._planner: Planner | None = None
        dyna = context.algorithm.world_model
        if dyna:
            tables = dyna_tables(context, dyna, config.envs_per_actor, config.chunk_steps)
            self.table = tables
            self._worker = worker = planning_worker(_actor_settings(config, context), context, dyna, tables)
            self._planner = worker.planner
        elif context.algorithm.rollouts is not None:
            self.table = Experience()
            self._worker = _rollout_worker(config, context, context.algorithm.rollouts)
        else:
            algorithm, spec, steps = context.off_policy, context.spec, config.chunk_steps
            options = table_options(algorithm, spec, context.server, config.envs_per_actor, steps, context.seed)
            self.table = table = Table(algorithm.table_form(spec, steps).signature, **options)
            self._worker = ReplayWorker(_actor_settings(config, context), algorithm, context.updater, table)
        self.saves_experience = context.algorithm.replay is not None
        self.learner: Learning = self._worker.learner
        self.acting = self._worker.clock
        self._reported = 0
        self._reported_seconds = dict.fromkeys(ACTOR_PHASES, 0.0)

    def step(self, timeout_seconds: float) -> None:
        """One turn; never waits."""
        self._worker.step()

    def take_figures(self) -> Figures:
        """The worker's counts since the last call, and the planner's totals."""
        episodes = self._worker.take_episodes()
        seconds = self._worker.clock.seconds
        figures: Figures = {
            "acted": {
                "steps": self._worker.steps - self._reported,
                "episodes": len(episodes),
                "seconds": {phase: spent - self._reported_seconds[phase] for phase, spent in seconds.items()},
                "returns": [(episode.return_, episode.length, 1.0) for episode in episodes],
            }
        }
        self._reported = self._worker.steps
        self._reported_seconds = dict(seconds)
        if self._planner is not None:
            figures["planned"] = self._planner.figures()
        return figures

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the worker's clocks."""
        self._worker.skip(seconds)

    def state(self) -> dict[str, Any]:
        """State of the worker."""
        return self._worker.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned."""
        self._worker.restore(state)
        self._reported = self._worker.steps

    def close(self) -> None:
        """Closes the environments."""
        self._worker.close()


def _actor_settings(config: Serial, context: RunContext) -> ActorSettings:
    exploration = context.off_policy.serial_exploration(config.envs_per_actor, 0)
    return context.actor_settings(0, exploration, config.chunk_steps)


def _rollout_worker(config: Serial, context: RunContext, algorithm: OnPolicy) -> RolloutWorker:
    return RolloutWorker(context.environment, config.envs_per_actor, algorithm, context.updater, seed=context.seed)
