"""Acting and learning in turn, in one thread."""

from time import perf_counter
from typing import Any

from headrace._native import Table
from headrace.replay import BatchBuffer
from headrace.roles.actor import ACTOR_PHASES, Actor, ActorSettings, table_signature
from headrace.roles.base import Role
from headrace.roles.clock import PhaseClock
from headrace.roles.learner import Learner
from headrace.servers import EmbeddedTable, ReplayTable
from headrace.topologies.base import Workshop
from headrace.topologies.config import Serial
from headrace.topologies.experience import table_options
from headrace.types import Batch

__all__ = ["SerialProgram"]


class SerialProgram:
    """One actor and one learner that take turns; implements `Program`.

    Each turn is one step of every environment, then as many updates as the replay ratio allows. New transitions take
    the table's largest priority (Schaul et al. 2016); DQN's exploration decays linearly (Mnih et al. 2015).
    """

    def __init__(self, config: Serial, workshop: Workshop) -> None:
        algorithm = workshop.algorithm
        self.actors: list[Role] = []
        self.services: list[Role] = []
        self.deterministic = True
        self._native = Table(
            table_signature(workshop.spec), **table_options(workshop, config.envs_per_actor, config.chunk_steps)
        )
        self.table: ReplayTable = EmbeddedTable(self._native)
        self._algorithm = algorithm
        self._clock = PhaseClock(ACTOR_PHASES)
        self.acting: PhaseClock | None = self._clock
        settings = ActorSettings(
            environment=workshop.environment,
            seed=workshop.seed,
            index=0,
            first_environment=0,
            exploration=tuple(algorithm.serial_exploration(config.envs_per_actor, 0)),
            n_step=algorithm.n_step,
            discount=algorithm.discount,
            chunk_steps=config.chunk_steps,
            clip_rewards=algorithm.clip_rewards,
            values=False,
        )
        self._actor = Actor(settings, workshop.updater.act, self._native.insert, self._clock)
        self._steps = 0
        self._reported = 0
        self._reported_seconds = dict.fromkeys(ACTOR_PHASES, 0.0)
        self._buffer = BatchBuffer(self._native.signature, algorithm.batch_size)
        self.learner = Learner(
            workshop.updater,
            self._next_batch,
            self.table.update_priorities if algorithm.prioritized else None,
            None,
            algorithm.publish_period,
        )

    def step(self, timeout_seconds: float) -> None:
        """One turn; it never waits."""
        self._actor.exploration.scale[:] = self._algorithm.serial_exploration(self._actor.count, self._steps)
        self._actor.set_policy_version(self.learner.steps + 1)
        begin = perf_counter()
        self._actor.step()
        middle = perf_counter()
        self.learner.clock.skip(middle - begin)  # each side's clock stands still while the other works
        self._steps += self._actor.count
        while self.learner.step(0.0):
            pass
        self._clock.skip(perf_counter() - middle)

    def take_reports(self) -> list[dict[str, Any]]:
        """The actor's counts since the last call."""
        episodes = self._actor.environments.take_episodes()
        report = {
            "role": "actor",
            "index": 0,
            "steps": self._steps - self._reported,
            "episodes": len(episodes),
            "returns": [[episode.return_, episode.length, 1.0] for episode in episodes],
            "seconds": {phase: spent - self._reported_seconds[phase] for phase, spent in self._clock.seconds.items()},
        }
        self._reported = self._steps
        self._reported_seconds = dict(self._clock.seconds)
        return [report]

    def skip(self, seconds: float) -> None:
        """Both clocks leave these out."""
        self._clock.skip(seconds)
        self.learner.clock.skip(seconds)

    def state(self) -> dict[str, Any]:
        """The actor's place."""
        return {"actor": self._actor.state(), "steps": self._steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to it."""
        self._actor.restore(state["actor"])
        self._steps = self._reported = state["steps"]

    def close(self) -> None:
        """Closes the environments."""
        self._actor.close()

    def _next_batch(self, timeout_seconds: float) -> Batch | None:
        exponent = self._algorithm.importance_exponent
        return self._buffer.arrays if self._native.sample_into(self._buffer.view, exponent, timeout_seconds) else None
