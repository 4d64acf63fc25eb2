"""Which runs are compared: topologies, each real and simulated with the same settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

__all__ = ["MODES", "SETUPS", "Case", "Plan", "Setup", "list_cases"]

Mode = Literal["real", "simulated"]
MODES: tuple[Mode, ...] = ("real", "simulated")


class Setup(NamedTuple):
    """A topology with its number of actors or workers."""

    topology: str
    processes: int = 1

    @property
    def name(self) -> str:
        """Its name in options and tables."""
        return self.topology if self.topology in ("serial", "apex") else f"{self.topology}-{self.processes}"


SETUPS = (
    Setup("serial"),
    Setup("apex"),
    Setup("hogwild", 1),
    Setup("hogwild", 2),
    Setup("hogwild", 4),
    Setup("parameter-server", 2),
)


class Plan(NamedTuple):
    """What all runs have in common."""

    environment: str
    score: float
    cores: int
    """Of the simulated machine, and of this one that the benchmark uses."""
    most_seconds: float
    """Training seconds after which a run ends, on its own clock."""
    costs: str
    """File with the calibrated costs."""
    link: str = ""
    """The measured link between roles and their server."""

    @property
    def columns(self) -> dict[str, str]:
        """The columns that all rows of a file have in common."""
        return {
            "environment": self.environment,
            "score": f"{self.score:g}",
            "most_seconds": f"{self.most_seconds:g}",
            "cores": str(self.cores),
        }


class Case(NamedTuple):
    """One run."""

    setup: Setup
    seed: int
    mode: Mode

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that identify its row."""
        return {
            "topology": self.setup.topology,
            "processes": self.setup.processes,
            "seed": self.seed,
            "mode": self.mode,
        }

    def is_of(self, row: Mapping[str, str]) -> bool:
        """Whether a row of the CSV file is this run's."""
        return all(row[name] == str(value) for name, value in self.columns.items())


def list_cases(seeds: int, setups: Sequence[Setup]) -> Iterator[Case]:
    """All runs, seed by seed, so that an interrupted measurement has as many of each; a seed's real runs come first."""
    for seed in range(seeds):
        for mode in MODES:
            for setup in setups:
                yield Case(setup, seed, mode)
