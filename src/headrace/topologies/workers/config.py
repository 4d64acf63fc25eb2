"""Settings that all topologies of workers have."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headrace.algorithms.config import Algorithm, OffPolicy
from headrace.errors import ConfigError
from headrace.fields import check_types, require_positive
from headrace.machine import available_cores
from headrace.topologies.config import MOST_CHUNK_STEPS, MOST_ENVIRONMENTS, MOST_PROCESSES, Topology
from headrace.types import EnvironmentSpec, Sizing

if TYPE_CHECKING:
    from headrace.servers import RunServer
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
        super().require_algorithm(algorithm)
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
        fitting = max(1, min(self.actor_count(algorithm), most))
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

    def require_run(self, algorithm: Algorithm, spec: EnvironmentSpec, server: "RunServer") -> None:
        """Raises ConfigError for a recurrent policy, with which workers do not act, and as table_options()."""
        if not algorithm.own_network and algorithm.architecture(spec).recurrent:
            raise ConfigError(
                f"algorithm is {algorithm.name}, and topology is {self.name}, whose workers do not act with a "
                f"recurrent policy: topology {self.names_without_workers()} is required"
            )
        if algorithm.replay is not None:
            self.table_options(algorithm.replay, spec, server)

    def table_options(
        self, algorithm: OffPolicy, spec: EnvironmentSpec, server: "RunServer", seed: int = 0
    ) -> dict[str, Any]:
        """Options of a worker's own table, or of the one that all share; raises as experience.table_options()."""
        from headrace.topologies.experience import table_options

        workers = self.acting_processes
        if self.shares_replay(algorithm):
            return table_options(algorithm, spec, server, workers * self.envs_per_worker, self.chunk_steps, seed)
        return table_options(algorithm, spec, server, self.envs_per_worker, self.chunk_steps, seed, workers=workers)

    def make_program(self, context: "RunContext", *, generation: int = 0, pinned: bool = False) -> "Program":
        """Workers, and their statistics."""
        from headrace.topologies.workers.program import WorkersProgram

        return WorkersProgram(self, context, generation)
