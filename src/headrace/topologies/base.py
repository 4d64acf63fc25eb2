"""The contract of every topology: the roles that it has, and one step of what runs in the training process."""

from typing import Any, NamedTuple, Protocol

from headrace.algorithms.base import Updater
from headrace.algorithms.config import OffPolicy
from headrace.roles.base import Role
from headrace.roles.clock import PhaseClock
from headrace.roles.learner import Learner
from headrace.servers import ReplayTable, RunServer
from headrace.types import EnvironmentSpec

__all__ = ["Program", "Workshop"]


class Workshop(NamedTuple):
    """What a topology builds its program from."""

    environment: str
    spec: EnvironmentSpec
    seed: int
    algorithm: OffPolicy
    updater: Updater
    server: RunServer
    fresh: bool = True
    """Begin with no experience, whatever an earlier start of the run left on the server."""
    run_id: str = ""
    """Tells the run from all others, of its name too."""


class Program(Protocol):
    """A run's roles and wiring. One thread uses it."""

    actors: list[Role]
    """To be started by a launcher, here or elsewhere."""
    services: list[Role]
    """Roles that the actors depend on; started with the learner."""
    learner: Learner
    table: ReplayTable
    acting: PhaseClock | None
    """The clock of an actor that runs inside this program, for whoever watches that it does not hang."""
    deterministic: bool
    """Whether the same seed gives the same run: then nothing may be decided by time."""

    def step(self, timeout_seconds: float) -> None:
        """A little progress, or none at the deadline."""

    def take_reports(self) -> list[dict[str, Any]]:
        """What is new of actors that run inside this program, in the form that Totals.news() gives."""

    def skip(self, seconds: float) -> None:
        """Leaves so many seconds out of the clocks of all that runs in this program: they were not training's."""

    def state(self) -> dict[str, Any]:
        """What resumes the program beside learner and table, JSON-able."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes back what state() gave, before the first step."""

    def close(self) -> None:
        """Ends threads and environments."""
