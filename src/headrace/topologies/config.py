"""Settings of the topologies: which roles there are and how they are wired."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors import ConfigError, require
from headrace.fields import MOST_STEPS, check_types, require_positive
from headrace.machine import available_cores
from headrace.networks.precision import Precision
from headrace.parameters.refresh import PullUnit

__all__ = ["MOST_PROCESSES", "AdPsgd", "Apex", "Hogwild", "Lock", "ParameterServer", "Serial", "Topology", "Workers"]

MOST_PROCESSES = 1_024
"""Actors or workers."""
_MOST_ENVIRONMENTS = 4_096
"""Of one process."""
_MOST_CHUNK_STEPS = 10_000
_MOST_BATCHES = 1_024
_MOST_SHARDS = 4_096
"""The most that a server holds."""


@dataclass(frozen=True)
class Serial:
    """One process acts and learns in turn: bit for bit the same for the same seed."""

    envs_per_actor: int = 1
    """Environments stepped together, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_actor", most=_MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=_MOST_CHUNK_STEPS)

    @property
    def actors(self) -> int:
        """One: the training process itself."""
        return 1


@dataclass(frozen=True)
class Apex:
    """Actor processes send experience to one learner (Horgan et al. 2018), at a precision of their own if so asked.

    With a precision below fp32, or fewer communication bits than 32, a quantizer process stands between the learner's
    parameters and the actors' policies (Krishnan et al. 2022, ActorQ).
    """

    actors: int | None = None
    """Actor processes; none given is one for each processor core but the learner's, at least one."""
    envs_per_actor: int = 16
    """Environments stepped together by each actor, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk (Horgan et al. 2018, appendix)."""
    pull_period: float = 400
    """An actor's environment steps (or what the pull unit says) between looks for newer parameters."""
    pull_unit: PullUnit = "steps"
    """What the pull period counts: environment steps, seconds, or versions (learner updates) it is behind."""
    precision: Precision | Literal["auto"] = "fp32"
    """Arithmetic of the actors' policy; auto measures on this machine at start and takes the fastest."""
    communication_bits: int = 32
    """Bits of each parameter that is sent to actors, 2 to 32, by uniform affine quantization; 32 is off."""
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

    @property
    def settled_precision(self) -> Precision:
        """The precision, once it has been chosen."""
        assert self.precision != "auto"
        return self.precision

    @property
    def takes_int8(self) -> bool:
        """Whether int8 goes with the communication bits: its weights have no more than 8."""
        return self.communication_bits <= 8 or self.communication_bits == 32

    @property
    def quantizes(self) -> bool:
        """Whether a quantizer stands between learner and actors."""
        return self.precision != "fp32" or self.communication_bits < 32


@dataclass(frozen=True)
class Workers:
    """What all topologies have whose processes act *and* learn, and share parameters."""

    workers: int | None = None
    """Worker processes; none given is one for each processor core."""
    envs_per_worker: int = 8
    """Environments stepped together by each worker, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk, of algorithms that learn from replay."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "envs_per_worker", most=_MOST_ENVIRONMENTS)
        require_positive(self, "chunk_steps", most=_MOST_CHUNK_STEPS)
        if self.workers is not None:
            require_positive(self, "workers", most=MOST_PROCESSES)

    @property
    def worker_count(self) -> int:
        """The workers asked for, or one for each core."""
        return self.workers or available_cores()


@dataclass(frozen=True)
class Lock(Workers):
    """One set of parameters in shared memory, read and changed under a lock."""

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of one that all share."""


@dataclass(frozen=True)
class Hogwild(Workers):
    """One set of parameters in shared memory, read and changed without a lock (Recht et al. 2011)."""

    own_optimizer_state: bool = False
    """Each worker has its own optimizer state instead of one that all share (Mnih et al. 2016)."""


@dataclass(frozen=True)
class AdPsgd(Workers):
    """Each worker has parameters of its own, and averages them with a random other's (Lian et al. 2018, AD-PSGD).

    The policy that is evaluated and saved is the mean of all workers'.
    """

    average_period: int = 1
    """A worker's updates between two averagings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "average_period", most=MOST_STEPS)


@dataclass(frozen=True)
class ParameterServer(Workers):
    """Gradients go to shards of the parameters in a server, which has the optimizer.

    Downpour SGD (Dean et al. 2012; Ong et al. 2015); with the global replay Gorila (Nair et al. 2015).
    """

    shards: int = 1
    """Slices of the parameters, each with its own optimizer; gradients of different slices are applied side by side."""
    fetch_period: int = 1
    """A worker's updates between two looks for newer parameters, of which there is none while a sum is not sent."""
    push_period: int = 1
    """A worker's updates whose gradients are summed before they are sent."""
    replay: Literal["local", "global"] = "local"
    """local: each worker learns from its own experience; global: from that of all, in the server."""
    staleness: Literal["accept", "drop", "scale", "compensate"] = "accept"
    """What becomes of a gradient that is versions behind: applied as it is, dropped beyond the limit (Nair et al.
    2015), applied with a learning rate divided by how far behind it is (Zhang et al. 2016), or corrected for what has
    changed (Zheng et al. 2017, DC-ASGD)."""
    staleness_limit: int = 100
    """With drop: versions behind beyond which a gradient is dropped."""
    compensation: float = 0.04
    """With compensate: the correction's weight, lambda (Zheng et al. 2017)."""
    shard_servers: tuple[str, ...] = ()
    """Further servers that hold shards, tcp://HOST:PORT or unix:PATH, taken in turn with the run's own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "shards", most=_MOST_SHARDS)
        require_positive(self, "fetch_period", "push_period", most=MOST_STEPS)
        servers = self.shard_servers
        valid = all(server.startswith(("tcp://", "unix:")) for server in servers)
        require("shard_servers", " ".join(servers), valid, "addresses, tcp:// or unix:")
        enough = f"above {len(servers)}, the number of shard_servers, or one of them has none"
        require("shards", self.shards, self.shards > len(servers), enough)
        limit = self.staleness_limit
        require("staleness_limit", limit, 0 <= limit <= MOST_STEPS, f"from 0 to {MOST_STEPS:,}")
        require("compensation", self.compensation, self.compensation >= 0, "0 or more")


Topology = Serial | Apex | Lock | Hogwild | AdPsgd | ParameterServer
