"""Settings of the launcher `ray`."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from headrace.errors import require
from headrace.fields import check_types, require_positive
from headrace.launch.base import Site
from headrace.launch.config import LauncherConfig

__all__ = ["Ray"]

_MOST_CPUS = 1_024.0
_MOST_WAIT_SECONDS = 604_800.0  # a week


@dataclass(frozen=True)
class Ray(LauncherConfig):
    """Actors of a Ray cluster: Ray places them on its nodes and notices their deaths; the run restarts them."""

    name: ClassVar[str] = "ray"
    summary: ClassVar[str] = "the nodes of a Ray cluster (extra: ray)"

    ray_address: str | None = None
    """Cluster: auto (on this machine), local (a new one here), HOST:PORT, ray://HOST:PORT; else RAY_ADDRESS or auto or
    local."""
    actor_cpus: float = 1.0
    """CPUs that Ray reserves for each actor, worker and planner."""
    placement: Literal["spread", "pack"] = "spread"
    """spread: over as many nodes as possible; pack: fill nodes one after the other, each to half before the next."""
    wait_seconds: float = 60.0
    """How long to wait for room for the first actor or worker."""
    server_node: str | None = None
    """Address of a node on which the run's server is started; by default it is in the training process."""
    server_data: Path | None = None
    """Absolute path of a directory on that node in which the server keeps experience and shards."""
    ray_runtime_env: Path | None = None
    """YAML file with a Ray runtime environment for all nodes; by default the working directory is copied to them."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "wait_seconds", most=_MOST_WAIT_SECONDS)
        data = self.server_data
        require("server_data", data, data is None or data.is_absolute(), "an absolute path, on the node of the server")
        require("server_data", data, data is None or self.server_node is not None, "left out without a server_node")
        require("actor_cpus", self.actor_cpus, 0 < self.actor_cpus <= _MOST_CPUS, f"above 0 and at most {_MOST_CPUS:g}")

    @property
    def local(self) -> bool:
        """No: on the nodes of a cluster."""
        return False

    @property
    def server_setting(self) -> str:
        """The node of the server, if one is given."""
        return "" if self.server_node is None else "server_node"

    def open(self, seed: int = 0) -> AbstractContextManager[Site]:
        """A connection to the cluster; raises ConfigError if Ray is not installed or has no cluster at the address."""
        from headrace.launch.ray.cluster import open_cluster  # an optional dependency, imported only if used

        return open_cluster(self)
