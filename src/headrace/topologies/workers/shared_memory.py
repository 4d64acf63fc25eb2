"""Settings of the topologies whose workers share parameters in memory of their machine."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError, require
from headrace.fields import MOST_STEPS, require_positive
from headrace.gradients.base import OpenVector, SharedOptions
from headrace.servers.base import Endpoint
from headrace.topologies.config import Begin
from headrace.topologies.workers.config import Workers

if TYPE_CHECKING:
    from headrace.networks import Architecture
    from headrace.topologies.base import SharedVectors

__all__ = ["AdPsgd", "Hogwild", "Lock", "SharedMemoryWorkers"]


@dataclass(frozen=True)
class SharedMemoryWorkers(Workers):
    """Workers of one machine; a subclass says how they share parameters there."""

    @property
    @abstractmethod
    def shared(self) -> SharedOptions:
        """How each update reads and changes the parameters."""

    def open_vectors(
        self, algorithm: Algorithm, endpoint: Endpoint, run_id: str = "", begin: Begin | None = None
    ) -> "SharedVectors":
        """Vectors in memory of this machine, which lasts as long as the run."""
        from headrace.topologies.workers.vectors import MemoryVectors

        return MemoryVectors(self.shared, self.acting_processes, live=algorithm.rollouts is None)

    def open_saved_vectors(self) -> OpenVector:
        """Vectors of the same kind, for a checkpoint outside of a run."""
        from headrace.topologies.workers.vectors import MemoryVectors

        return MemoryVectors(self.shared, self.acting_processes, live=False)


@dataclass(frozen=True)
class Lock(SharedMemoryWorkers):
    """One set of parameters in shared memory, read and updated under a lock."""

    name: ClassVar[str] = "lock"
    summary: ClassVar[str] = "workers that share parameters in memory, under a lock"

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of a shared one."""

    @property
    def shared(self) -> SharedOptions:
        """One vector, under a lock."""
        return SharedOptions("lock", self.own_optimizer_state)


@dataclass(frozen=True)
class Hogwild(SharedMemoryWorkers):
    """One set of parameters in shared memory, read and updated without a lock (Recht et al. 2011)."""

    name: ClassVar[str] = "hogwild"
    summary: ClassVar[str] = "the same without a lock"

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of a shared one (Mnih et al. 2016)."""

    @property
    def shared(self) -> SharedOptions:
        """One vector, without a lock."""
        return SharedOptions("hogwild", self.own_optimizer_state)


@dataclass(frozen=True)
class AdPsgd(SharedMemoryWorkers):
    """Each worker averages its own parameters with those of a random other worker (Lian et al. 2018, AD-PSGD).

    The policy that is evaluated and saved is the mean over all workers.
    """

    name: ClassVar[str] = "ad-psgd"
    summary: ClassVar[str] = "workers that average their parameters"

    average_period: int = 1
    """A worker's updates between two averagings."""
    l1_penalty: float = 0.0
    """Weight of the sum of the parameters' magnitudes in the loss, for sparse networks. Above 0, each update ends with
    the penalty's proximal operator: every parameter moves by its learning rate × l1_penalty toward 0, and stops there
    (decentralized proximal gradient, Zeng, Yin 2018). SAC's temperature is left out. In the mean of all workers a
    parameter is 0 where it is 0 in each of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "average_period", most=MOST_STEPS)
        require("l1_penalty", self.l1_penalty, self.l1_penalty >= 0, "0 or more")

    @property
    def shared(self) -> SharedOptions:
        """A vector for each worker."""
        return SharedOptions("ad-psgd", True, self.average_period, self.l1_penalty)

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError also for one whose statistics the penalty would shrink."""
        super().require_algorithm(algorithm)
        if self.l1_penalty > 0 and algorithm.statistics_rate:
            raise ConfigError(
                f"l1_penalty is {self.l1_penalty:g} and algorithm is {algorithm.name}, which averages statistics: 0 is "
                "required, since the penalty is one of a network's parameters"
            )

    def resolved(self, architecture: "Architecture") -> "tuple[AdPsgd, str]":
        """These settings; raises ConfigError for a user's network with parameters that the penalty must not shrink."""
        own = architecture.own
        fixed = [each.name for each in own.parameters if not each.trained] if own is not None else []
        if self.l1_penalty > 0 and own is not None and fixed:
            raise ConfigError(
                f"l1_penalty is {self.l1_penalty:g} and network is {own.build}, whose requires_grad is False for "
                f"{fixed[0].removeprefix('module.')}: 0 is required, since the penalty moves every parameter"
            )
        return self, ""
