"""`headrace dashboard`: a live page about the runs of a folder, or about a server."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import Positional, parse
from headrace.errors import ConfigError, require
from headrace.servers import SCHEMES, is_redis, read_token, shown

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    subject: Annotated[Positional[str], tyro.conf.arg(metavar="[RUNS_DIR|ADDRESS]")] = "runs"
    """Folder with run directories, one run directory, or a server: tcp://HOST:PORT, unix:PATH, unix:@NAME."""
    port: int = 7448
    """Port of the page; 0 is a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; any but 127.0.0.1, ::1 and localhost is reachable by others and needs --page-token-file."""
    token_file: Path | None = None
    """File with the server's secret."""
    page_token_file: Path | None = None
    """File with the secret that readers of the page need."""

    def __post_init__(self) -> None:
        require("port", self.port, 0 <= self.port <= 65535, "from 0 to 65535")
        if self.token_file is not None and not self.is_address:
            raise ConfigError(
                f"token_file is {str(self.token_file)!a}, which is the secret of a server, and there is no ADDRESS; "
                "the page's is --page-token-file"
            )

    @property
    def is_address(self) -> bool:
        """Whether the subject is a server."""
        return self.subject.startswith(SCHEMES)


def run(arguments: Sequence[str]) -> int:
    """Serves the page until Ctrl-C; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace dashboard",
        description="Show the runs of a folder, or a server, in a browser, live. Both are only read.",
    )
    token = read_token(options.page_token_file, "page_token_file") if options.page_token_file else None
    require("page_token_file", options.page_token_file, token != b"", "a file that is not empty")
    if is_redis(options.subject):
        raise ConfigError(f"address is {shown(options.subject)}; it must be a Headrace server's, tcp:// or unix:")
    if not options.is_address and not Path(options.subject).is_dir():
        raise ConfigError(f"runs_dir is {options.subject!a}; it must be a folder that exists, or a server's address")
    try:
        from headrace.dashboard.service import require_token, runs_site, serve, server_site
    except ImportError as error:
        raise ConfigError(f'the dashboard needs an extra: pip install "headrace[dashboard]" ({error})') from None
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        require_token(options.host, token)
        if options.is_address:
            secret = read_token(options.token_file) if options.token_file else None
            site = stack.enter_context(server_site(options.subject, secret))
        else:
            site = runs_site(Path(options.subject))
        serve(site, options.host, options.port, token, _announce)
    return 0


def _announce(address: str) -> None:
    print(f"dashboard at {address}", flush=True)
