"""`headrace actor`: actors for a run on a server, which provides everything else."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import ServerOptions, parse
from headrace.errors import ConfigError
from headrace.fields import require_positive
from headrace.launch import run_actors
from headrace.report import default_run_directory
from headrace.topologies.config import MOST_PROCESSES

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    server: Annotated[ServerOptions, tyro.conf.arg(name="")] = field(default_factory=ServerOptions)
    actors: int = 1
    """Actor processes to start here; the learner's settings say how many environments each has."""
    log_dir: Path | None = None
    """Directory for the actors' logs; runs/actors-RUN-TIME if not set."""

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
    endpoint = options.server.endpoint
    if endpoint is None:
        raise ConfigError("server is missing; it is required: headrace actor --server ADDRESS")
    logs = options.log_dir or default_run_directory("actors", endpoint.run, datetime.now())
    return 130 if run_actors(endpoint, options.actors, logs, _say) == "interrupt" else 0


def _say(text: str) -> None:
    """Prints a line at once; a closed pipe does not end the actors."""
    with contextlib.suppress(OSError):
        print(text, flush=True)
