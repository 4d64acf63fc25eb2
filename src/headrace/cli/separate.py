"""What `headrace actor` and `headrace worker` have in common."""

import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import ServerOptions
from headrace.errors import ConfigError, require
from headrace.launch.separate_roles import run_separate
from headrace.report import make_default_directory
from headrace.report.display import say
from headrace.types import ActingKind

__all__ = ["SeparateOptions", "act"]


@dataclass(frozen=True)
class SeparateOptions:
    """Options of both commands."""

    server: Annotated[ServerOptions, tyro.conf.arg(name="")] = field(default_factory=ServerOptions)
    log_dir: Path | None = None
    """Directory for the logs; runs/actors-RUN-TIME or runs/workers-RUN-TIME if not set."""


def act(kind: ActingKind, count: int, options: SeparateOptions) -> int:
    """Runs `count` actors or workers until the run has ended; returns the exit code."""
    endpoint = options.server.endpoint
    if endpoint is None:
        raise ConfigError(f"server is missing; it is required: headrace {kind} --server ADDRESS")
    given = options.log_dir
    require("log_dir", given, given is None or not given.exists() or given.is_dir(), "a directory")
    made = given is None or not given.exists()
    logs = given or make_default_directory(f"{kind}s", endpoint.run, datetime.now())
    try:
        return 130 if run_separate(endpoint, kind, count, logs, say) == "interrupt" else 0
    finally:
        if made:
            with contextlib.suppress(OSError):  # there are logs in it
                logs.rmdir()
