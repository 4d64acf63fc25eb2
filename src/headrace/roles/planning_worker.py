"""Acts, learns and plans in turn, in one thread."""

from headrace.algorithms.base import Updater
from headrace.clock import monotonic
from headrace.replay import MixedBatches, ReplayTable
from headrace.roles.actor import ActorSettings
from headrace.roles.planner import Planner, PlannerSettings
from headrace.roles.worker import ReplayWorker

__all__ = ["PlanningWorker"]


class PlanningWorker(ReplayWorker):
    """A worker and a planner; the planner has its turn after each turn of the worker.

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
        super().__init__(actor, planner.algorithm, updater, real, mixed=mixed, push_transitions=transitions.insert)
        self.planner = Planner(planner, transitions, simulated.insert, updater.act)
        self._transitions = transitions

    def step(self) -> None:
        """One turn; never waits."""
        super().step()
        begin = monotonic()
        steps = int(self._transitions.stats()["inserts"])
        while self.planner.advance(steps):
            self.clock.beat()
        self.skip(monotonic() - begin)
