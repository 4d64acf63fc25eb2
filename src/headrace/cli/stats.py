"""`headrace stats`: shows a server's contents and activity, live on a terminal."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from headrace._native import Client
from headrace.cli.arguments import Address, Period, Switch, parse
from headrace.cli.visit import visit
from headrace.errors import require
from headrace.report.display import draws_live
from headrace.report.server_view import ServerView

__all__ = ["run"]

_PIPE_COLUMNS = 120  # for output that is not a terminal


@dataclass(frozen=True)
class _Options:
    address: Address
    """Server: tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND,... (docs/bypass.md)."""
    token_file: Path | None = None
    """File with the server's secret."""
    json: Switch = False
    """Print the server's statistics as one JSON object."""
    period_seconds: Period = 1.0
    """Time between two snapshots, over which rates are computed."""

    def __post_init__(self) -> None:
        require("period", self.period_seconds, 0 < self.period_seconds <= 3600, "above 0, at most an hour")
        require("period", self.period_seconds, not self.json or self.period_seconds == 1.0, "left out with --json")


def run(arguments: Sequence[str]) -> int:
    """Shows the statistics; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace stats",
        description="Show a server's tables, parameters and connections: live on a terminal, else once.",
    )
    with visit(options.address, options.token_file) as client:
        if options.json:
            print(json.dumps(client.stats()))
        elif draws_live(sys.stdout):
            _watch(client, options)
        else:
            before = client.stats()
            time.sleep(options.period_seconds)
            Console(width=_PIPE_COLUMNS, highlight=False).print(ServerView(options.address, before, client.stats()))
    return 0


def _watch(client: Client, options: _Options) -> None:
    """Redraws the statistics until Ctrl-C."""
    before = None
    try:
        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            while True:
                after = client.stats()
                live.update(ServerView(options.address, before, after), refresh=True)
                before = after
                time.sleep(options.period_seconds)
    except KeyboardInterrupt:
        return
