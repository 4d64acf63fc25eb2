"""The contract of every topology: its roles, and one step of its part in the training process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.base import Updater
from headrace.algorithms.config import Algorithm, Engine, OffPolicy
from headrace.gradients.base import ParameterVector
from headrace.gradients.handles import VectorHandle
from headrace.replay import Experience
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Learning, Role
from headrace.roles.clock import PhaseClock
from headrace.roles.messages import Figures, Report
from headrace.servers import RunServer
from headrace.types import EnvironmentSpec

__all__ = ["Learning", "Program", "RunContext", "SharedVectors"]


class SharedVectors(Protocol):
    """Shared parameters as the training process sees them: an `OpenVector` that remembers the vectors it created."""

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        """Creates the next vector [P] for the workers; the result holds its newest values."""

    @property
    def handles(self) -> tuple[VectorHandle, ...]:
        """How workers access the vectors, in the order of their creation."""

    @property
    def version(self) -> int:
        """Number of updates applied to the first vector, as far as is known without asking a server."""

    @property
    def updates_lost(self) -> int:
        """Number of updates that restarted servers did not have any more, over all vectors."""

    def give_up(self) -> None:
        """Closes connections, from any thread; a waiting call raises ClosedError."""

    def close(self) -> None:
        """Closes connections and removes the run's shards from servers that outlive it; its workers have ended."""


class RunContext(NamedTuple):
    """Inputs from which a topology builds its program."""

    environment: str
    spec: EnvironmentSpec
    seed: int
    algorithm: Algorithm
    updater: Updater
    server: RunServer
    fresh: bool = True
    """Whether to start without experience, even if an earlier start of the run left some on the server."""
    run_id: str = ""
    """Distinguishes the run from all others, including those with the same name."""
    vectors: SharedVectors | None = None
    """Parameter vectors that workers share, if the topology has any; those of the updater hold the newest values."""
    engine: Engine = "auto"
    """What computes the workers' networks."""

    @property
    def off_policy(self) -> OffPolicy:
        """The algorithm, which learns from replay."""
        assert self.algorithm.replay is not None
        return self.algorithm.replay

    def actor_settings(
        self, first_environment: int, exploration: Sequence[float], chunk_steps: int, **more: Any
    ) -> ActorSettings:
        """Settings of the run's actor whose environments, one for each number of `exploration`, begin with this one."""
        return ActorSettings(
            environment=self.environment,
            seed=self.seed,
            first_environment=first_environment,
            exploration=tuple(exploration),
            algorithm=self.algorithm,
            chunk_steps=chunk_steps,
            spec=self.spec,
            run_id=self.run_id,
            **more,
        )


class Program(ABC):
    """A run's roles and their connections. One thread uses it."""

    actors: list[Role]
    """Roles for a launcher to start, on this machine or elsewhere."""
    services: list[Role]
    """Roles that the actors depend on; started with the learner."""
    learner: Learning
    table: Experience
    saves_experience: bool
    """Whether a checkpoint must include the table's experience, because it is stored only in this process."""
    acting: PhaseClock | None = None
    """Clock of an actor inside this program, which is watched for hangs; None if there is no such actor."""
    deterministic: bool = False
    """Whether the same seed gives the same run: then no decision may depend on time."""

    @property
    def waited_seconds(self) -> float:
        """Seconds in which step() has waited for the run's server, beyond its timeout."""
        return 0.0

    @abstractmethod
    def step(self, timeout_seconds: float) -> None:
        """Makes a little progress, or none at the deadline."""

    def take_figures(self) -> Figures:
        """What is done inside this program: `acted` since the last call, `planned` since its start."""
        return {}

    def receive(self, report: Report) -> None:
        """Processes a report from an actor or a worker of this program, with its totals unchanged."""

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from all clocks in this program: they were not training time."""

    def figures(self) -> dict[str, Any] | None:
        """Gradient statistics of workers that share parameters, for the records; None without such workers."""
        return None

    def state(self) -> dict[str, Any]:
        """JSON-able state that, with learner and table, resumes the program."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned, before the first step."""

    def give_up(self) -> None:
        """Ends waiting for other servers than the run's, from any thread: a waiting call raises ClosedError."""

    @abstractmethod
    def close(self) -> None:
        """Ends threads and environments."""
