"""Settings of the topology `serial`."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from headrace.algorithms.config import Algorithm
from headrace.fields import check_types, require_positive
from headrace.topologies.config import MOST_CHUNK_STEPS, MOST_ENVIRONMENTS, Topology
from headrace.types import Sizing

if TYPE_CHECKING:
    from headrace.topologies.base import Program, RunContext

__all__ = ["Serial"]


@dataclass(frozen=True)
class Serial(Topology):
    """One process acts and learns in turn; the same seed gives bit-identical results."""

    name: ClassVar[str] = "serial"
    summary: ClassVar[str] = "one process, reproducible for the same seed"

    envs_per_actor: int = 1
    """Environments stepped together, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_actor", most=MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=MOST_CHUNK_STEPS)

    @property
    def acting_processes(self) -> int:
        """One: the training process itself."""
        return 1

    def sized(self, processes: int, environments: int) -> Self:
        """The same with so many environments; there is one process, regardless of `processes`."""
        return dataclasses.replace(self, envs_per_actor=environments)

    def core_count(self, algorithm: Algorithm) -> int:
        """None: the training process acts."""
        return 0

    @property
    def environments_each(self) -> int:
        """Number of environments that it steps."""
        return self.envs_per_actor

    @classmethod
    def unused_settings(cls, algorithm: type[Algorithm]) -> tuple[str, ...]:
        """Those of all workers, and the time between evaluations, which would not be the same for the same seed."""
        return *super().unused_settings(algorithm), "evaluation_period_seconds"

    @classmethod
    def tuned(cls, sizing: Sizing) -> Self:
        """One process with its environments."""
        return cls(envs_per_actor=sizing.environments, chunk_steps=sizing.chunk_steps)

    def make_program(self, context: "RunContext", *, generation: int = 0, pinned: bool = False) -> "Program":
        """One worker in the training process."""
        from headrace.topologies.serial.program import SerialProgram

        return SerialProgram(self, context)
