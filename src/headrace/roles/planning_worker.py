"""Acts, learns and plans in turn, in one thread."""

from collections.abc import Sequence
from typing import Any

from headrace.algorithms.base import Updater
from headrace.clock import monotonic
from headrace.environments import Episode
from headrace.replay import MixedBatches, ReplayTable
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Learning
from headrace.roles.clock import PhaseClock
from headrace.roles.planner import Planner, PlannerSettings
from headrace.roles.worker import ReplayWorker

__all__ = ["PlanningWorker"]


class PlanningWorker:
    """A worker and a planner; the planner has its turn after each turn of the worker. Implements `roles.base.Worker`.

    After restore() the planner trains a new model from the stored transitions.
    """

    def __init__(
        self,
        actor: ActorSettings,
        planner: PlannerSettings,
        updater: Updater,
        real: ReplayTable,
        transitions: ReplayTable,
        simulated: ReplayTable,
        mixed: MixedBatches,
    ) -> None:
        self._worker = ReplayWorker(
            actor, planner.algorithm, updater, real, mixed=mixed, push_transitions=transitions.insert
        )
        self.planner = Planner(planner, transitions, simulated.insert, updater.act)
        self._transitions = transitions
        self.clock: PhaseClock = self._worker.clock
        self.steps = 0

    @property
    def learner(self) -> Learning:
        """The learning side; its clock is paused while the worker acts or plans."""
        return self._worker.learner

    @property
    def count(self) -> int:
        """E, the number of environments."""
        return self._worker.count

    @property
    def exploration(self) -> Sequence[float]:
        """How much each environment explores now."""
        return self._worker.exploration

    def step(self) -> None:
        """One turn; never waits."""
        self._worker.step()
        self.steps = self._worker.steps
        begin = monotonic()
        steps = int(self._transitions.stats()["inserts"])
        while self.planner.advance(steps):
            self.clock.beat()
        self._worker.skip(monotonic() - begin)

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        return self._worker.take_episodes()

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from both clocks."""
        self._worker.skip(seconds)

    def state(self) -> dict[str, Any]:
        """State of the worker."""
        return self._worker.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned."""
        self._worker.restore(state)
        self.steps = self._worker.steps

    def close(self) -> None:
        """Closes the environments."""
        self._worker.close()
