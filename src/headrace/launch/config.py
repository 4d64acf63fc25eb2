"""Settings of the launchers: where the processes of a run are started."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from headrace.errors import require
from headrace.fields import check_types, read_choice, require_positive, write_fields
from headrace.launch.base import Site
from headrace.launch.processes import ProcessLauncher
from headrace.launch.simulated import Costs, Fault, Link, open_simulation, read_fault_rate, read_faults

__all__ = ["LAUNCHERS", "LauncherConfig", "LauncherName", "Processes", "Ray", "Simulated"]

LauncherName = Literal["processes", "ray", "simulated"]
_MOST_CPUS = 1_024.0
_MOST_CORES = 4_096


@dataclass(frozen=True)
class LauncherConfig(ABC):
    """Settings of a launcher, and what it answers for itself."""

    name: ClassVar[LauncherName]
    """Name on the command line and in files."""
    summary: ClassVar[str]
    """What --help says of it, in a few words."""

    @property
    def starts_server(self) -> bool:
        """Whether it starts a server for the run, which then has none in the training process."""
        return False

    @property
    def takes_server(self) -> bool:
        """Whether a run may use a separate server."""
        return True

    @property
    def repeatable(self) -> bool:
        """Whether the same seed gives the same run, and the same failure."""
        return False

    @abstractmethod
    def open(self, seed: int = 0) -> AbstractContextManager[Site]:
        """A context in which roles can be started; `seed` is the run's. Raises ConfigError or LaunchError."""

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON, with the launcher's name."""
        return {"name": self.name, **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "LauncherConfig":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return read_choice(LAUNCHERS, record)


@dataclass(frozen=True)
class Processes(LauncherConfig):
    """Processes on this machine."""

    name: ClassVar[LauncherName] = "processes"
    summary: ClassVar[str] = "processes on this machine"

    @contextlib.contextmanager
    def open(self, seed: int = 0) -> Iterator[Site]:
        """This machine, on which roles reach the run's server by a Unix socket."""
        yield Site(ProcessLauncher)


@dataclass(frozen=True)
class Ray(LauncherConfig):
    """Actors of a Ray cluster: Ray places them on its nodes and notices their deaths; the run restarts them."""

    name: ClassVar[LauncherName] = "ray"
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
    """Directory on that node in which the server keeps experience and parameters."""
    ray_runtime_env: Path | None = None
    """YAML file with a Ray runtime environment for all nodes; by default the working directory is copied to them."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "wait_seconds")
        data = self.server_data
        require("server_data", data, data is None or data.is_absolute(), "an absolute path, on the node of the server")
        require("server_data", data, data is None or self.server_node is not None, "left out without a server_node")
        require("actor_cpus", self.actor_cpus, 0 < self.actor_cpus <= _MOST_CPUS, f"above 0 and at most {_MOST_CPUS:g}")

    @property
    def starts_server(self) -> bool:
        """Whether a node for the server is given."""
        return self.server_node is not None

    def open(self, seed: int = 0) -> AbstractContextManager[Site]:
        """A connection to the cluster; raises ConfigError if Ray is not installed or has no cluster at the address."""
        from headrace.launch.ray import open_cluster  # an optional dependency, imported only if used

        return open_cluster(self)


@dataclass(frozen=True)
class Simulated(LauncherConfig):
    """Simulated time: any number of cores, any link, any faults; the same seed gives the same run, bit for bit."""

    name: ClassVar[LauncherName] = "simulated"
    summary: ClassVar[str] = "simulated time on any number of cores, repeatable bit for bit"

    cores: int = 2
    """Cores of the simulated machine, which all processes share."""
    link: str = "50us,10Gbit"
    """Latency and bandwidth between roles and their server."""
    costs: Path | None = None
    """JSON file with what each kind of work costs; by default round numbers (docs/simulation.md)."""
    faults: str = "none"
    """none, random:RATE (faults a simulated second), or a JSON file with a list of faults."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "cores", most=_MOST_CORES)
        Link.parse(self.link)  # to refuse what is none
        read_fault_rate(self.faults)

    @property
    def takes_server(self) -> bool:
        """No: the server is simulated too."""
        return False

    @property
    def repeatable(self) -> bool:
        """Yes."""
        return True

    def open(self, seed: int = 0) -> AbstractContextManager[Site]:
        """The simulated machine, whose first thread is this one."""
        costs, faults = self.read_files(seed)
        return open_simulation(self.cores, Link.parse(self.link), costs, faults, seed)

    def read_files(self, seed: int = 0) -> tuple[Costs, tuple[Fault, ...]]:
        """Costs and faults of a run; raises ConfigError. Only a run that starts needs the files."""
        costs = Costs.read(self.costs) if self.costs is not None else Costs()
        return costs, read_faults(self.faults, seed)


LAUNCHERS: dict[LauncherName, type[LauncherConfig]] = {kind.name: kind for kind in (Processes, Ray, Simulated)}
"""All launchers by name."""
