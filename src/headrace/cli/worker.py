"""`headrace worker`: workers, which act and learn, for a run on a server, which provides everything else."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.arguments import parse
from headrace.cli.separate import SeparateOptions, act
from headrace.fields import require_positive
from headrace.topologies.config import MOST_PROCESSES

__all__ = ["run"]


@dataclass(frozen=True)
class _Options(SeparateOptions):
    workers: int = 1
    """Worker processes to start here; the learner's settings say how many environments each has."""

    def __post_init__(self) -> None:
        require_positive(self, "workers", most=MOST_PROCESSES)


def run(arguments: Sequence[str]) -> int:
    """Acts and learns until the run has ended; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace worker",
        description="Act and learn for a run with topology parameter-server on a server; environment, settings and "
        "parameters come from there.",
    )
    return act("worker", options.workers, options)
