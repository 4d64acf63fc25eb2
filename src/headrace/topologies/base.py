"""The contract of every topology: the roles that it has, and one step of what runs in the training process."""

from typing import Any, NamedTuple, Protocol

from headrace.algorithms.base import Updater
from headrace.algorithms.config import Algorithm, OffPolicy
from headrace.errors import ConfigError
from headrace.roles.base import Learning, Role
from headrace.roles.clock import PhaseClock
from headrace.servers import RunServer
from headrace.topologies.parameters import Parameters
from headrace.types import EnvironmentSpec

__all__ = ["Experience", "Learning", "Program", "Workshop"]


class Workshop(NamedTuple):
    """What a topology builds its program from."""

    environment: str
    spec: EnvironmentSpec
    seed: int
    algorithm: Algorithm
    updater: Updater
    server: RunServer
    fresh: bool = True
    """Begin with no experience, whatever an earlier start of the run left on the server."""
    run_id: str = ""
    """Tells the run from all others, of its name too."""
    parameters: Parameters | None = None
    """Those that workers share, where the topology has such; the updater's vector shows them."""

    @property
    def off_policy(self) -> OffPolicy:
        """The algorithm of a topology that learns from replay; raises ConfigError for another."""
        if not isinstance(self.algorithm, OffPolicy):
            raise ConfigError(
                "algorithm is a3c, which learns from what its own policy just did: topology serial, lock, hogwild, "
                "parameter-server or ad-psgd is required"
            )
        return self.algorithm


class Experience(Protocol):
    """A run's experience, wherever it is, as the training process sees it."""

    def stats(self) -> dict[str, float]:
        """Counts, bytes, ratio of samples to inserts."""

    def set_paused(self, paused: bool) -> None:
        """Holds back whoever gathers it, or lets them go on."""

    def save(self, path: str) -> None:
        """Writes a snapshot; only where the training process has it."""

    def restore(self, path: str) -> None:
        """Takes a snapshot, while it is empty."""

    def close(self) -> None:
        """Ends those who gather it."""


class Program(Protocol):
    """A run's roles and wiring. One thread uses it."""

    actors: list[Role]
    """To be started by a launcher, here or elsewhere."""
    services: list[Role]
    """Roles that the actors depend on; started with the learner."""
    learner: Learning
    table: Experience
    saves_experience: bool
    """Whether the table's experience belongs into a checkpoint: it is here, and nowhere else."""
    acting: PhaseClock | None
    """The clock of an actor that runs inside this program, for whoever watches that it does not hang."""
    deterministic: bool
    """Whether the same seed gives the same run: then nothing may be decided by time."""

    def step(self, timeout_seconds: float) -> None:
        """A little progress, or none at the deadline."""

    def take_reports(self) -> list[dict[str, Any]]:
        """What is new of actors that run inside this program, in the form that Totals.news() gives."""

    def hear(self, report: dict[str, Any]) -> None:
        """Takes what a worker, planner or other role of this program reported by mail, its totals as they are."""

    def skip(self, seconds: float) -> None:
        """Leaves so many seconds out of the clocks of all that runs in this program: they were not training's."""

    def figures(self) -> dict[str, Any] | None:
        """What became of the gradients of workers that share parameters, for the records; None where none do."""

    def state(self) -> dict[str, Any]:
        """What resumes the program beside learner and table, JSON-able."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes back what state() gave, before the first step."""

    def close(self) -> None:
        """Ends threads and environments."""
