"""The contract of every topology: its settings, and what it answers for itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.fields import write_fields
from headrace.gradients.base import OpenVector
from headrace.networks.precision import Precision
from headrace.servers.base import Endpoint
from headrace.topologies.registry import TOPOLOGIES
from headrace.types import ActingKind, EnvironmentSpec, Sizing

if TYPE_CHECKING:
    from headrace.networks import Architecture
    from headrace.servers import RunServer
    from headrace.topologies.base import Program, RunContext, SharedVectors

__all__ = [
    "MOST_CHUNK_STEPS",
    "MOST_ENVIRONMENTS",
    "MOST_PROCESSES",
    "Begin",
    "Topology",
    "planners",
]

MOST_PROCESSES = 1_024
"""Limit on the number of actors or workers."""
MOST_ENVIRONMENTS = 4_096
"""Limit for one process."""
MOST_CHUNK_STEPS = 10_000

Begin = Callable[[], None]
"""Called before a run changes anything on its server."""


def planners(algorithm: Algorithm) -> int:
    """Number of processes that plan for an algorithm."""
    return algorithm.world_model.planners if algorithm.world_model else 0


@dataclass(frozen=True)
class Topology(ABC):
    """Settings of a topology, and what it answers for itself.

    It is registered by name (`topologies/registry.py`). Its module must not import what only a run needs, such as its
    program: the command line reads the settings of all topologies.
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    summary: ClassVar[str]
    """What --help says of it, in a few words."""
    has_workers: ClassVar[bool] = False
    """Whether its processes both act and learn."""
    takes_rollouts: ClassVar[bool] = True
    """Whether it runs algorithms that learn from rollouts of their current policy."""
    takes_server: ClassVar[bool] = False
    """Whether a run may use a separate server, where actors or workers may be started separately from the learner."""

    @staticmethod
    def names_without_workers() -> str:
        """The topologies that have no workers, for a message."""
        return TOPOLOGIES.names_where(lambda kind: not kind.has_workers)

    @property
    def acting_kind(self) -> ActingKind:
        """Kind of the roles that act."""
        return "worker" if self.has_workers else "actor"

    @property
    def quantizes(self) -> bool:
        """Whether a quantizer converts parameters for the actors."""
        return False

    @property
    def actor_precision(self) -> Precision:
        """Arithmetic of the actors' policy, after "auto" was resolved."""
        return "fp32"

    @property
    def policy_bits(self) -> int:
        """Bits per parameter in which actors receive policies."""
        return 32

    @classmethod
    def unused_settings(cls, algorithm: type[Algorithm]) -> tuple[str, ...]:
        """Names of the settings of a run and its algorithm that have no effect in it."""
        return "publish_period", "planners", *algorithm.fixed_exploration

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError for an algorithm that it can't run."""
        if algorithm.replay is None and not self.takes_rollouts:
            able = TOPOLOGIES.names_where(lambda kind: kind.takes_rollouts)
            raise ConfigError(
                f"algorithm is {algorithm.name}, which learns from rollouts of its current policy: topology {able} "
                "is required"
            )

    def require_run(  # noqa: B027 (most find mistakes before they change anything)
        self, algorithm: Algorithm, spec: EnvironmentSpec, server: "RunServer"
    ) -> None:
        """Raises ConfigError for settings with which it can't run the algorithm in an environment.

        Called before open_vectors(), which may drop what an earlier run left on the server.
        """

    @abstractmethod
    def sized(self, processes: int, environments: int) -> Self:
        """The same with so many acting processes, of so many environments each."""

    @property
    @abstractmethod
    def acting_processes(self) -> int:
        """Number of processes that act."""

    def actor_count(self, algorithm: Algorithm) -> int:
        """The same for an algorithm whose other processes also need cores."""
        return self.acting_processes

    def core_count(self, algorithm: Algorithm) -> int:
        """Number of processes that need a core each, without the learner: those that act, and planners."""
        return self.actor_count(algorithm) + planners(algorithm)

    def fitted(self, algorithm: Algorithm, most: int) -> Self:
        """The same with a fixed number of acting processes; if none was given, of at most `most` with the planners."""
        return self

    def resumed(self, processes: int) -> Self:
        """The same for a run that had this many acting processes: actors may have become more or fewer."""
        return self

    @property
    @abstractmethod
    def environments_each(self) -> int:
        """Number of environments that each of them steps."""

    @classmethod
    def tuned(cls, sizing: Sizing) -> Self:
        """The one for an environment whose preset has this sizing."""
        return cls()

    def resolved(self, architecture: "Architecture") -> "tuple[Topology, str]":
        """The same with settings that depend on this machine's speed resolved, and a note for the user or "".

        Raises ConfigError if it can't act with such a network.
        """
        return self, ""

    def open_vectors(
        self, algorithm: Algorithm, endpoint: Endpoint, run_id: str = "", begin: Begin | None = None
    ) -> "SharedVectors | None":
        """Creates the parameters that workers share; None without workers.

        `run_id` separates this run's shards from others' on servers that several runs may use. `begin` is called before
        the first shard is created.
        """
        return None

    def shares_replay(self, algorithm: Algorithm) -> bool:
        """Whether all workers' experience goes to one table, in the server."""
        return False

    def open_saved_vectors(self) -> OpenVector | None:
        """Opens vectors that a run's checkpoint fits, outside of a run; None if the updater's own vectors do."""
        return None

    @abstractmethod
    def make_program(self, context: "RunContext", *, generation: int = 0, pinned: bool = False) -> "Program":
        """The program of a run; `generation` is that of its roles' first start, `pinned` asks for page-locked batches.

        Raises ConfigError if it can't act with the algorithm's networks.
        """

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON, with the topology's name."""
        return {"name": TOPOLOGIES.name_of(self), **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Topology":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return TOPOLOGIES.read(record)
