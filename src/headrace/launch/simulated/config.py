"""Settings of the launcher `simulated`."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headrace.fields import check_types, require_positive
from headrace.launch.base import Site
from headrace.launch.config import LauncherConfig
from headrace.launch.simulated.costs import Costs
from headrace.launch.simulated.faults import Fault, names_file, read_fault_rate, read_faults
from headrace.launch.simulated.launcher import open_simulation
from headrace.launch.simulated.link import Link

__all__ = ["Simulated"]

_MOST_CORES = 4_096


@dataclass(frozen=True)
class Simulated(LauncherConfig):
    """Simulated time: any number of cores, any link, any faults; the same seed gives the same run, bit for bit."""

    name: ClassVar[str] = "simulated"
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

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON; paths are absolute, so that a run can be resumed from any directory."""
        record = super().to_record()
        if self.costs is not None:
            record["costs"] = str(self.costs.absolute())
        if names_file(self.faults):
            record["faults"] = str(Path(self.faults).absolute())
        return record

    def read_files(self, seed: int = 0) -> tuple[Costs, tuple[Fault, ...]]:
        """Costs and faults of a run; raises ConfigError. Only a run that starts needs the files."""
        costs = Costs.read(self.costs) if self.costs is not None else Costs()
        return costs, read_faults(self.faults, seed)
