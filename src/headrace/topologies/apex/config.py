"""Settings of the topology `apex`."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError, require
from headrace.fields import MOST_STEPS, check_types, require_positive, require_unused
from headrace.machine import available_cores
from headrace.networks.precision import Precision
from headrace.parameters.refresh import PullUnit
from headrace.topologies.config import MOST_CHUNK_STEPS, MOST_ENVIRONMENTS, MOST_PROCESSES, Topology, planners
from headrace.types import Sizing

if TYPE_CHECKING:
    from headrace.networks import Architecture
    from headrace.topologies.base import Program, RunContext

__all__ = ["Apex"]

_MOST_BATCHES = 1_024


@dataclass(frozen=True)
class Apex(Topology):
    """Actor processes send experience to one learner (Horgan et al. 2018); actors may use a lower precision.

    With a precision below fp32, or fewer communication bits than 32, a quantizer process converts the learner's
    parameters to the actors' policies (Krishnan et al. 2022, ActorQ).
    """

    name: ClassVar[str] = "apex"
    summary: ClassVar[str] = "actor processes and a learner"
    takes_server: ClassVar[bool] = True
    takes_rollouts: ClassVar[bool] = False

    actors: int | None = None
    """Actor processes; by default one per processor core except the learner's, at least one."""
    envs_per_actor: int = 16
    """Environments stepped together by each actor, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk (Horgan et al. 2018, appendix)."""
    pull_period: float = 400
    """Interval at which an actor polls for newer parameters, in its environment steps or another pull unit."""
    pull_unit: PullUnit = "steps"
    """Unit of the pull period: environment steps, seconds, or versions (learner updates) by which the policy lags."""
    precision: Precision | Literal["auto"] = "fp32"
    """Arithmetic of the actors' policy; auto measures on this machine at start and chooses the fastest."""
    communication_bits: int = 32
    """Bits per parameter sent to actors, 2 to 32, by uniform affine quantization; 32 turns it off."""
    batches_ahead: int = 4
    """Batches that a native thread keeps ready for the learner; without effect, and refused, with a world model."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_actor", most=MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=MOST_CHUNK_STEPS)
        require_positive(self, "pull_period", most=MOST_STEPS)
        if self.actors is not None:
            require_positive(self, "actors", most=MOST_PROCESSES)
        valid = self.pull_unit == "seconds" or self.pull_period == int(self.pull_period)
        require("pull_period", self.pull_period, valid, f"a whole number of {self.pull_unit}")
        bits = self.communication_bits
        require("communication_bits", bits, 2 <= bits <= 32, "a whole number from 2 to 32")
        if self.precision == "int8" and not self.takes_int8:
            raise ConfigError(
                f"communication_bits is {bits} and precision is int8, whose policies are sent in 8 "
                "bits: 2 to 8, or 32 for what int8 itself sends, is required"
            )
        require("batches_ahead", self.batches_ahead, self.batches_ahead >= 2, "2 or more")
        require_positive(self, "batches_ahead", most=_MOST_BATCHES)

    @classmethod
    def unused_settings(cls, algorithm: type[Algorithm]) -> tuple[str, ...]:
        """Those of an exploration that changes during the run: each environment's is fixed."""
        return algorithm.decaying_exploration

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError also for settings of planning that the algorithm does not use."""
        super().require_algorithm(algorithm)
        require_unused(self, "batches_ahead", algorithm.world_model is not None, "the algorithm has no world model")

    def sized(self, processes: int, environments: int) -> Self:
        """The same with so many actors."""
        return dataclasses.replace(self, actors=processes, envs_per_actor=environments)

    @property
    def acting_processes(self) -> int:
        """The configured number of actors, or one per core except the learner's."""
        return self.actors or max(1, available_cores() - 1)

    def actor_count(self, algorithm: Algorithm) -> int:
        """The same, but only one by default if there are planners."""
        return 1 if algorithm.world_model and self.actors is None else self.acting_processes

    def fitted(self, algorithm: Algorithm, most: int) -> Self:
        """The same with a fixed number of actors."""
        fitting = max(1, min(self.actor_count(algorithm), most - planners(algorithm)))
        return dataclasses.replace(self, actors=self.actors or fitting)

    @property
    def environments_each(self) -> int:
        """Number of environments that each actor steps."""
        return self.envs_per_actor

    @property
    def actor_precision(self) -> Precision:
        """The precision after "auto" was resolved."""
        assert self.precision != "auto"
        return self.precision

    @property
    def policy_bits(self) -> int:
        """Bits per parameter in which actors receive policies; below 32 by uniform affine quantization."""
        return self.communication_bits

    @property
    def takes_int8(self) -> bool:
        """Whether int8 is compatible with the communication bits: its weights have at most 8."""
        return self.communication_bits <= 8 or self.communication_bits == 32

    @property
    def quantizes(self) -> bool:
        """Whether a quantizer converts parameters for the actors."""
        return self.precision != "fp32" or self.communication_bits < 32

    @classmethod
    def tuned(cls, sizing: Sizing) -> Self:
        """Each actor steps the environments of one."""
        return cls(envs_per_actor=sizing.actor_environments)

    def resolved(self, architecture: "Architecture") -> "tuple[Apex, str]":
        """The same with the precision of the actors' policy; "auto" is the fastest on this machine."""
        from headrace.topologies.apex.precision import choose_precision

        return choose_precision(self, architecture)

    def make_program(self, context: "RunContext", *, generation: int = 0, pinned: bool = False) -> "Program":
        """Actors, a learner, and what quantizes or plans."""
        from headrace.topologies.apex.program import ApexProgram

        return ApexProgram(self, context, generation, pinned)
