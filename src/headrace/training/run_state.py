"""The part of a checkpoint that is neither parameters nor experience."""

from dataclasses import dataclass
from typing import Any

from headrace.training.evaluation import Moment
from headrace.types import EnvironmentSpec

__all__ = ["RunState"]


@dataclass(frozen=True)
class RunState:
    """What a resumed run continues with: counts, clocks, random states; state.json of a checkpoint."""

    environment_steps: int
    learner_steps: int
    seconds: float
    """Of the training clock."""
    total_seconds: float
    """Including evaluations."""
    episodes: int
    run_id: str
    resumptions: int
    """How often the run had been resumed."""
    spec: EnvironmentSpec
    """The environment in which the policy was trained."""
    acting_processes: int
    local_actors: bool
    """Whether actors and workers were started with the run, not separately."""
    actor_seconds: dict[str, Any]
    """Time of all actors, by phase."""
    learner_seconds: dict[str, Any]
    totals: dict[str, Any]
    """The last report of each actor or worker."""
    evaluations: dict[str, Any]
    next_evaluation: float
    awaited_episodes: int
    """Episodes of the evaluation that was pending; 0 if there was none."""
    solved: bool
    """Whether the last evaluation has ended the run by its score."""
    target: float | None
    """The score that ends the run."""
    program: dict[str, Any]
    mean_staleness: float | None = None
    """Of all batches or gradients so far."""

    @property
    def moment(self) -> Moment:
        """The point in training."""
        return Moment(self.environment_steps, self.learner_steps, self.seconds)
