"""Acts and learns in turn, from its own replay or from replay shared by all workers."""

from collections.abc import Callable
from typing import Any

from headrace.algorithms.base import Updater
from headrace.algorithms.config import OffPolicy
from headrace.clock import monotonic
from headrace.environments import Episode
from headrace.replay import MixedBatches, ReplayTable, SampledBatches
from headrace.roles.actor import Actor, ActorSettings
from headrace.roles.clock import ACTOR_PHASES, PhaseClock
from headrace.roles.learner import Learner

__all__ = ["ReplayWorker"]


class ReplayWorker:
    """One actor and one learner that take turns; implements `roles.base.Worker`.

    Each turn is one step of every environment, then as many updates as the replay ratio of `table` allows. New
    transitions get the table's largest priority (Schaul et al. 2016). Exploration is scheduled by the steps of all
    `workers`, of which `first_step` were made before this worker started. `mixed` provides batches that come partly
    from another table; `push_transitions` takes one-step transitions, see `Actor`.
    """

    def __init__(
        self,
        settings: ActorSettings,
        algorithm: OffPolicy,
        updater: Updater,
        table: ReplayTable,
        *,
        workers: int = 1,
        first_step: int = 0,
        mixed: MixedBatches | None = None,
        push_transitions: Callable[[bytes], object] | None = None,
        clock: PhaseClock | None = None,
    ) -> None:
        self.steps = 0
        self.clock = clock or PhaseClock(ACTOR_PHASES, len(settings.exploration))
        self._algorithm = algorithm
        self._updater = updater
        self._workers = workers
        self._index = settings.first_environment // len(settings.exploration)
        self._first_step = first_step
        memory = algorithm.make_memory(updater)
        output = memory.output if memory else updater.act
        self._actor = Actor(settings, output, table.insert, self.clock, push_transitions, memory)
        batches = mixed or SampledBatches(table, algorithm.batch_size, algorithm.importance_exponent)
        self.learner = Learner(
            updater,
            batches.next,
            (mixed or table).update_priorities if algorithm.prioritized else None,
            None,
            algorithm.publish_period,
        )

    @property
    def exploration(self) -> list[float]:
        """How much each environment explores now."""
        scale: list[float] = self._actor.exploration.scale.tolist()
        return scale

    def step(self) -> None:
        """One turn; waits for the rate limiter if the table is shared."""
        self.clock.enter("pull")
        self._updater.pull()
        self.clock.enter("other")
        passed = self._first_step + self.steps * self._workers
        all_exploration = self._algorithm.serial_exploration(self._workers * self._actor.count, passed)
        self._actor.exploration.scale[:] = all_exploration[self._index :: self._workers]
        self._actor.set_policy_version(self._updater.version + 1)
        taken = self._actor.step()
        middle = monotonic()
        self.learner.clock.restart("other")  # since its last update, time was the actor's
        self.steps += taken
        while self.learner.step(0.0):
            pass
        self.clock.skip(monotonic() - middle)  # which was the learner's

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        return self._actor.environments.take_episodes()

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the actor's clock: the learner's is restarted in each turn."""
        self.clock.skip(seconds)

    def state(self) -> dict[str, Any]:
        """State of the actor, and the steps so far."""
        return {"actor": self._actor.state(), "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned."""
        self._actor.set_policy_version(self._updater.version + 1)
        self._actor.restore(state["actor"])
        self.steps = state["steps"]

    def close(self) -> None:
        """Closes the environments."""
        self._actor.close()
