"""`headrace dashboard`: a live page about the runs of a folder."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import Positional, parse
from headrace.errors import ConfigError, require
from headrace.servers import read_token

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    runs: Annotated[Positional[Path], tyro.conf.arg(metavar="RUNS_DIR")] = Path("runs")
    """Folder with run directories, or one run directory."""
    port: int = 7448
    """Port of the page; 0 is a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; other machines can reach any but 127.0.0.1, ::1 and localhost, which needs --token-file."""
    token_file: Path | None = None
    """File with the secret that readers of the page need."""

    def __post_init__(self) -> None:
        require("port", self.port, 0 <= self.port <= 65535, "from 0 to 65535")


def run(arguments: Sequence[str]) -> int:
    """Serves the page until Ctrl-C; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace dashboard",
        description="Show the runs of a folder in a browser, live. Runs are only read.",
    )
    if not options.runs.is_dir():
        raise ConfigError(f"runs_dir is {str(options.runs)!a}; it must be a folder that exists")
    token = read_token(options.token_file) if options.token_file else None
    require("token_file", options.token_file, token != b"", "a file that is not empty")
    try:
        from headrace.dashboard.service import serve
    except ImportError as error:
        raise ConfigError(f'the dashboard needs an extra: pip install "headrace[dashboard]" ({error})') from None
    with contextlib.suppress(KeyboardInterrupt):
        serve(options.runs, options.host, options.port, token, _announce)
    return 0


def _announce(address: str) -> None:
    print(f"dashboard at {address}", flush=True)
