"""Settings that all topologies of workers have."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.fields import check_types, require_positive
from headrace.machine import available_cores
from headrace.topologies.config import MOST_CHUNK_STEPS, MOST_ENVIRONMENTS, MOST_PROCESSES, Sizing, Topology, planners

if TYPE_CHECKING:
    from headrace.topologies.base import Program, RunContext

__all__ = ["Workers"]


@dataclass(frozen=True)
class Workers(Topology):
    """Settings shared by all topologies whose processes both act and learn, and share parameters."""

    has_workers: ClassVar[bool] = True

    workers: int | None = None
    """Worker processes; by default one per processor core."""
    envs_per_worker: int = 8
    """Environments stepped together by each worker, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk, for algorithms that learn from replay."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_worker", most=MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=MOST_CHUNK_STEPS)
        if self.workers is not None:
            require_positive(self, "workers", most=MOST_PROCESSES)

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError for an algorithm that plans."""
        if algorithm.world_model is not None:
            raise ConfigError(
                f"algorithm is {algorithm.name}, and this topology's workers do not plan: topology "
                f"{self.names_without_workers()}, or no planning, is required"
            )

    def sized(self, processes: int, environments: int) -> Self:
        """The same with so many workers."""
        return dataclasses.replace(self, workers=processes, envs_per_worker=environments)

    @property
    def acting_processes(self) -> int:
        """The configured number of workers, or one per core."""
        return self.workers or available_cores()

    def fitted(self, algorithm: Algorithm, most: int) -> Self:
        """The same with a fixed number of workers."""
        fitting = max(1, min(self.actor_count(algorithm), most - planners(algorithm)))
        return dataclasses.replace(self, workers=self.workers or fitting)

    def resumed(self, processes: int) -> Self:
        """The same with as many workers, each of which may have its own parameters or optimizer state."""
        return dataclasses.replace(self, workers=self.workers or processes)

    @property
    def environments_each(self) -> int:
        """Number of environments that each worker steps."""
        return self.envs_per_worker

    @classmethod
    def tuned(cls, sizing: Sizing) -> Self:
        """Each worker steps the environments of one process."""
        return cls(envs_per_worker=sizing.environments, chunk_steps=sizing.chunk_steps)

    def shares_replay(self, algorithm: Algorithm) -> bool:
        """Whether all workers' experience goes to one table, in the server."""
        return False

    def make_program(self, context: "RunContext", *, generation: int = 0, pinned: bool = False) -> "Program":
        """Workers; raises ConfigError for a recurrent policy, with which they do not act."""
        from headrace.topologies.workers.program import WorkersProgram

        if context.updater.architecture.recurrent:
            raise ConfigError(
                f"algorithm is {context.algorithm.name}, and topology is {self.name}, whose workers do not act with a "
                f"recurrent policy: topology {self.names_without_workers()} is required"
            )
        return WorkersProgram(self, context, generation)
