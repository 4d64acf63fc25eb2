"""Settings of the topology `parameter-server`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError, require
from headrace.fields import MOST_STEPS, require_positive, require_unused
from headrace.servers.base import SCHEMES, Endpoint, absolute, shown
from headrace.topologies.config import Begin
from headrace.topologies.workers.config import Workers

if TYPE_CHECKING:
    from headrace.topologies.base import SharedVectors

__all__ = ["ParameterServer", "require_connections"]

_MOST_SHARDS = 1_024
"""Of a model (native/io/sharded_model.h)."""
_MOST_CONNECTIONS = 4_096
"""Of a server, unless it is started with another limit: each process has one for each shard there."""
_MOST_COMPENSATED = 255
"""Workers whose fetched parameters a shard keeps, next to those of the training process (native/core/shard.h)."""


def require_connections(shards: Sequence[int], servers: int, processes: int) -> None:
    """Raises ConfigError if a server would have too many connections; `shards` are those of each vector so far."""
    connections = sum(-(-count // servers) for count in shards) * processes
    few = f"so few that {processes} processes need at most {_MOST_CONNECTIONS:,} connections to a server"
    several = f", one for each shard there of each of {len(shards)} vectors of parameters" if len(shards) > 1 else ""
    require("shards", shards[0], connections <= _MOST_CONNECTIONS, few + several)


@dataclass(frozen=True)
class ParameterServer(Workers):
    """Gradients go to shards of the parameters in a server, which runs the optimizer.

    Downpour SGD (Dean et al. 2012; Ong et al. 2015); with global replay it is Gorila (Nair et al. 2015).
    """

    name: ClassVar[str] = "parameter-server"
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
        servers = tuple(map(absolute, self.shard_servers))  # a run may be resumed in another folder
        object.__setattr__(self, "shard_servers", servers)
        valid = all(server.startswith(SCHEMES) for server in servers)
        require("shard_servers", " ".join(map(shown, servers)), valid, "addresses, tcp://, unix: or dpdk:")
        enough = f"above {len(servers)}, the number of shard_servers, or one of them has none"
        require("shards", self.shards, self.shards > len(servers), enough)
        require_connections([self.shards], 1 + len(servers), self.acting_processes + 1)
        if self.staleness == "compensate" and self.local_updates:
            raise ConfigError(
                "staleness is compensate and local_updates is true: one of them is required to be left out, since the "
                "correction is for the change since the last fetch, which local updates already contain in part"
            )
        if self.staleness == "compensate" and self.push_period > 1:
            raise ConfigError(
                f"staleness is compensate and push_period is {self.push_period}: 1 is required, since the correction "
                "has the square of a gradient, and that of a sum is larger than the sum of the squares"
            )
        if self.staleness == "compensate" and self.acting_processes > _MOST_COMPENSATED:
            raise ConfigError(
                f"staleness is compensate and workers is {self.acting_processes}: at most {_MOST_COMPENSATED} are "
                "required, since a shard keeps the parameters that each has fetched"
            )
        limit = self.staleness_limit
        require("staleness_limit", limit, 0 <= limit <= MOST_STEPS, f"from 0 to {MOST_STEPS:,}")
        require("compensation", self.compensation, self.compensation >= 0, "0 or more")
        for policy, name in (("drop", "staleness_limit"), ("compensate", "compensation")):
            require_unused(self, name, self.staleness != policy, f"staleness is {policy}")

    def require_algorithm(self, algorithm: Algorithm) -> None:
        """Raises ConfigError also for one without the replay to share, or whose statistics the settings do not fit."""
        super().require_algorithm(algorithm)
        if self.replay == "global" and algorithm.replay is None:
            raise ConfigError(
                f"replay is global and algorithm is {algorithm.name}, which has none: leave replay out, or take an "
                "algorithm that learns from replay"
            )
        rate = algorithm.statistics_rate
        if rate >= 1:
            raise ConfigError(
                f"algorithm is {algorithm.name}, whose statistics become those of each batch: averages are required "
                f"with topology {self.name}"
            )
        if rate and rate * self.push_period >= 1:
            raise ConfigError(
                f"push_period is {self.push_period} and algorithm is {algorithm.name}, whose statistics move by "
                f"{rate:g} of their distance from a batch's: less than {1 / rate:g} is required, or they diverge"
            )
        if rate and rate * self.fetch_period >= 1 and not self.local_updates:
            raise ConfigError(
                f"fetch_period is {self.fetch_period} and algorithm is {algorithm.name}, whose statistics move by "
                f"{rate:g} of their distance from a batch's: less than {1 / rate:g} is required, or they diverge; or "
                "local_updates"
            )
        if self.staleness == "compensate" and rate:
            raise ConfigError(
                f"staleness is compensate and algorithm is {algorithm.name}, which averages statistics: staleness "
                "accept, drop or scale is required, since the correction is one of a loss's gradients"
            )

    def shares_replay(self, algorithm: Algorithm) -> bool:
        """Whether all workers' experience goes to one table, in the server."""
        return algorithm.replay is not None and self.replay == "global"

    def open_vectors(
        self, algorithm: Algorithm, endpoint: Endpoint, run_id: str = "", begin: Begin | None = None
    ) -> "SharedVectors":
        """Vectors in shards of servers."""
        from headrace.gradients.served import ServedOptions
        from headrace.topologies.workers.vectors import ServedVectors

        name = f"model-{run_id}" if self.shard_servers else "model"
        options = ServedOptions(
            shards=self.shards,
            servers=self.shard_servers,
            fetch_period=self.fetch_period,
            push_period=self.push_period,
            local_updates=self.local_updates,
            staleness=self.staleness,
            staleness_limit=self.staleness_limit,
            compensation=self.compensation,
        )
        return ServedVectors(name, options, endpoint, begin, self.acting_processes + 1)
