"""`headrace actor`: actors for a run on a server, which provides everything else."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.arguments import parse
from headrace.cli.separate import SeparateOptions, act
from headrace.fields import require_positive
from headrace.topologies.config import MOST_PROCESSES

__all__ = ["run"]


@dataclass(frozen=True)
class _Options(SeparateOptions):
    actors: int = 1
    """Actor processes to start here; the learner's settings say how many environments each has."""

    def __post_init__(self) -> None:
        require_positive(self, "actors", most=MOST_PROCESSES)


def run(arguments: Sequence[str]) -> int:
    """Acts until the run has ended; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace actor",
        description="Act for a run on a server; environment, settings and policy come from its learner.",
    )
    return act("actor", options.actors, options)
