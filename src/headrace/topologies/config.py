"""Settings of the topologies: which roles exist and how they are connected."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError, require
from headrace.fields import MOST_STEPS, check_types, read_choice, require_positive, write_fields
from headrace.gradients.base import SharedOptions
from headrace.machine import available_cores
from headrace.networks.precision import Precision
from headrace.parameters.refresh import PullUnit
from headrace.servers.base import shown
from headrace.types import ActingKind

__all__ = [
    "MOST_PROCESSES",
    "TOPOLOGIES",
    "WORKER_TOPOLOGIES",
    "AdPsgd",
    "Apex",
    "Hogwild",
    "Lock",
    "ParameterServer",
    "Serial",
    "Topology",
    "TopologyName",
    "Workers",
]

TopologyName = Literal["apex", "serial", "parameter-server", "lock", "hogwild", "ad-psgd"]

MOST_PROCESSES = 1_024
"""Limit on the number of actors or workers."""
_MOST_ENVIRONMENTS = 4_096
"""Limit for one process."""
_MOST_CHUNK_STEPS = 10_000
_MOST_BATCHES = 1_024
_MOST_SHARDS = 1_024
"""Of a model (native/io/sharded_model.h)."""
_MOST_CONNECTIONS = 4_096
"""Of a server, unless it is started with another limit: each process has one for each shard there."""
_MOST_COMPENSATED = 255
"""Workers whose fetched parameters a shard keeps, next to those of the training process (native/core/shard.h)."""


def _planners(algorithm: Algorithm) -> int:
    return algorithm.world_model.planners if algorithm.world_model else 0


@dataclass(frozen=True)
class Topology(ABC):
    """Settings of a topology, and what it answers for itself."""

    name: ClassVar[TopologyName]
    """Name on the command line and in files."""
    summary: ClassVar[str]
    """What --help says of it, in a few words."""
    has_workers: ClassVar[bool] = False
    """Whether its processes both act and learn."""
    takes_server: ClassVar[bool] = False
    """Whether a run may use a separate server, where actors or workers may be started separately from the learner."""

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

    @property
    def shared_memory(self) -> SharedOptions | None:
        """How its workers share parameters in memory of their machine; None if they do not."""
        return None

    def require_algorithm(self, algorithm: Algorithm) -> None:  # noqa: B027 (most can run any)
        """Raises ConfigError for an algorithm that it can't run."""

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
        return self.actor_count(algorithm) + _planners(algorithm)

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

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON, with the topology's name."""
        return {"name": self.name, **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Topology":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return read_choice(TOPOLOGIES, record)


@dataclass(frozen=True)
class Serial(Topology):
    """One process acts and learns in turn; the same seed gives bit-identical results."""

    name: ClassVar[TopologyName] = "serial"
    summary: ClassVar[str] = "one process, the same for the same seed"

    envs_per_actor: int = 1
    """Environments stepped together, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_actor", most=_MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=_MOST_CHUNK_STEPS)

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


@dataclass(frozen=True)
class Apex(Topology):
    """Actor processes send experience to one learner (Horgan et al. 2018); actors may use a lower precision.

    With a precision below fp32, or fewer communication bits than 32, a quantizer process converts the learner's
    parameters to the actors' policies (Krishnan et al. 2022, ActorQ).
    """

    name: ClassVar[TopologyName] = "apex"
    summary: ClassVar[str] = "actor processes and a learner"
    takes_server: ClassVar[bool] = True

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
    """Batches that a native thread keeps ready for the learner."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_actor", most=_MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=_MOST_CHUNK_STEPS)
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

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError for an algorithm without replay, which its actors would fill."""
        if algorithm.replay is None:
            able = ", ".join(name for name in TOPOLOGIES if name != self.name)
            raise ConfigError(
                f"algorithm is {algorithm.name}, which learns from rollouts of its current policy: one of the "
                f"topologies {able} is required"
            )

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
        fitting = max(1, min(self.actor_count(algorithm), most - _planners(algorithm)))
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
        require_positive(self, "envs_per_worker", most=_MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=_MOST_CHUNK_STEPS)
        if self.workers is not None:
            require_positive(self, "workers", most=MOST_PROCESSES)

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError for an algorithm that plans."""
        if algorithm.world_model is not None:
            raise ConfigError(
                f"algorithm is {algorithm.name}, and this topology's workers do not plan: topology apex or serial, or "
                "no planning, is required"
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
        fitting = max(1, min(self.actor_count(algorithm), most - _planners(algorithm)))
        return dataclasses.replace(self, workers=self.workers or fitting)

    def resumed(self, processes: int) -> Self:
        """The same with as many workers, each of which may have its own parameters or optimizer state."""
        return dataclasses.replace(self, workers=self.workers or processes)

    @property
    def environments_each(self) -> int:
        """Number of environments that each worker steps."""
        return self.envs_per_worker


@dataclass(frozen=True)
class Lock(Workers):
    """One set of parameters in shared memory, read and updated under a lock."""

    name: ClassVar[TopologyName] = "lock"
    summary: ClassVar[str] = "workers that share parameters in memory, under a lock"

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of a shared one."""

    @property
    def shared_memory(self) -> SharedOptions:
        """One vector, under a lock."""
        return SharedOptions("lock", self.own_optimizer_state)


@dataclass(frozen=True)
class Hogwild(Workers):
    """One set of parameters in shared memory, read and updated without a lock (Recht et al. 2011)."""

    name: ClassVar[TopologyName] = "hogwild"
    summary: ClassVar[str] = "the same without a lock"

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of a shared one (Mnih et al. 2016)."""

    @property
    def shared_memory(self) -> SharedOptions:
        """One vector, without a lock."""
        return SharedOptions("hogwild", self.own_optimizer_state)


@dataclass(frozen=True)
class AdPsgd(Workers):
    """Each worker averages its own parameters with those of a random other worker (Lian et al. 2018, AD-PSGD).

    The policy that is evaluated and saved is the mean over all workers.
    """

    name: ClassVar[TopologyName] = "ad-psgd"
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
    def shared_memory(self) -> SharedOptions:
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


@dataclass(frozen=True)
class ParameterServer(Workers):
    """Gradients go to shards of the parameters in a server, which runs the optimizer.

    Downpour SGD (Dean et al. 2012; Ong et al. 2015); with global replay it is Gorila (Nair et al. 2015).
    """

    name: ClassVar[TopologyName] = "parameter-server"
    summary: ClassVar[str] = "workers that send gradients to a server"
    takes_server: ClassVar[bool] = True

    shards: int = 1
    """Slices of the parameters, each with its own optimizer; gradients of different slices are applied in parallel."""
    fetch_period: int = 1
    """A worker's updates between two polls for newer parameters; it does not poll while a gradient sum is pending."""
    push_period: int = 1
    """A worker's updates whose gradients are summed before they are sent."""
    local_updates: bool = False
    """A worker also applies its gradients to its own copy between two fetches, by plain SGD with the learning rate
    (Dean et al. 2012, algorithm 7.1)."""
    replay: Literal["local", "global"] = "local"
    """local: each worker learns from its own experience; global: from all workers' experience, in the server."""
    staleness: Literal["accept", "drop", "scale", "compensate"] = "accept"
    """Handling of a gradient that is versions behind: applied unchanged, dropped beyond the limit (Nair et al. 2015),
    applied with the learning rate divided by its staleness (Zhang et al. 2016), or corrected for the change of the
    parameters since (Zheng et al. 2017, DC-ASGD)."""
    staleness_limit: int = 100
    """With drop: staleness in versions above which a gradient is dropped."""
    compensation: float = 0.04
    """With compensate: weight of the correction, lambda (Zheng et al. 2017)."""
    shard_servers: tuple[str, ...] = ()
    """Additional servers for shards, with tcp://, unix: or dpdk: addresses, used in rotation with the run's server."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "shards", most=_MOST_SHARDS)
        require_positive(self, "fetch_period", "push_period", most=MOST_STEPS)
        if self.local_updates and self.fetch_period == self.push_period == 1:
            raise ConfigError(
                "local_updates is true, and fetch_period and push_period are 1, where every gradient is followed by a "
                "fetch, which replaces the worker's copy: one of them must be above 1"
            )
        servers = self.shard_servers
        valid = all(server.startswith(("tcp://", "unix:", "dpdk:")) for server in servers)
        require("shard_servers", " ".join(map(shown, servers)), valid, "addresses, tcp://, unix: or dpdk:")
        enough = f"above {len(servers)}, the number of shard_servers, or one of them has none"
        require("shards", self.shards, self.shards > len(servers), enough)
        processes = self.acting_processes + 1
        connections = -(-self.shards // (1 + len(servers))) * processes
        few = f"so few that {processes} processes need at most {_MOST_CONNECTIONS:,} connections to a server"
        require("shards", self.shards, connections <= _MOST_CONNECTIONS, few)
        if self.staleness == "compensate" and self.acting_processes > _MOST_COMPENSATED:
            raise ConfigError(
                f"staleness is compensate and workers is {self.acting_processes}: at most {_MOST_COMPENSATED} are "
                "required, since a shard keeps the parameters that each has fetched"
            )
        limit = self.staleness_limit
        require("staleness_limit", limit, 0 <= limit <= MOST_STEPS, f"from 0 to {MOST_STEPS:,}")
        require("compensation", self.compensation, self.compensation >= 0, "0 or more")
        for policy, name in (("drop", "staleness_limit"), ("compensate", "compensation")):
            value = getattr(self, name)
            used = self.staleness == policy or value == getattr(ParameterServer, name)
            require(name, value, used, f"the default unless staleness is {policy}")

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError also for one without the replay to share, or whose statistics the settings do not fit."""
        super().require_algorithm(algorithm)
        if self.replay == "global" and algorithm.replay is None:
            raise ConfigError(
                f"replay is global and algorithm is {algorithm.name}, which has none: leave replay out, or take an "
                "algorithm that learns from replay"
            )
        rate = algorithm.statistics_rate
        if rate and rate * self.push_period >= 1:
            raise ConfigError(
                f"push_period is {self.push_period} and algorithm is {algorithm.name}, whose statistics move by "
                f"{rate:g} of their distance from a batch's: less than {1 / rate:g} is required, or they diverge"
            )
        if self.staleness == "compensate" and rate:
            raise ConfigError(
                f"staleness is compensate and algorithm is {algorithm.name}, which averages statistics: staleness "
                "accept, drop or scale is required, since the correction is one of a loss's gradients"
            )


WORKER_TOPOLOGIES: dict[TopologyName, type[Workers]] = {
    kind.name: kind for kind in (ParameterServer, Lock, Hogwild, AdPsgd)
}
TOPOLOGIES: dict[TopologyName, type[Topology]] = {Apex.name: Apex, Serial.name: Serial, **WORKER_TOPOLOGIES}
"""All topologies by name."""
