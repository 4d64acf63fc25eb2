"""`headrace drop`: removes a run from a server."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cli.arguments import Address, RunName, parse
from headrace.cli.visit import visit
from headrace.errors import ConfigError
from headrace.report.formats import count, size
from headrace.servers import Endpoint, claim_run
from headrace.settings import require_run_name

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    address: Address
    """Server: tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND,... (docs/bypass.md)."""
    run: RunName
    """Name of the run on that server."""
    token_file: Path | None = None
    """File with the server's secret."""

    def __post_init__(self) -> None:
        require_run_name(self.run)


def run(arguments: Sequence[str]) -> int:
    """Removes the run; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace drop",
        description="Remove a run's experience, parameters and messages from a server; the run directory is kept.",
    )
    prefix = f"{options.run}/"
    with visit(options.address, options.token_file) as client:
        # So that no learner starts meanwhile.
        claim_run(client, Endpoint(options.address, options.run), secrets.randbits(63))
        statistics = client.stats()
        if not client.drop(prefix):
            known = ", ".join(_runs(statistics))
            there = f"the runs there are {known}" if known else "there is no run"
            raise ConfigError(f"run {options.run} is not on {options.address}; {there}")
    tables = [table for name, table in statistics["tables"].items() if name.startswith(prefix)]
    held = {**statistics["parameters"], **statistics["shards"]}
    blobs = [blob for name, blob in held.items() if name.startswith(prefix)]
    print(
        f"dropped {options.run}: {count(sum(table['size'] for table in tables))} transitions "
        f"({size(sum(table['used_bytes'] for table in tables))}), "
        f"{size(sum(blob['bytes'] for blob in blobs))} of parameters, and its messages"
    )
    return 0


def _runs(statistics: Mapping[str, Any]) -> list[str]:
    """The runs with data on a server."""
    names = [*statistics["tables"], *statistics["parameters"], *statistics["shards"]]
    return sorted({name.split("/")[0] for name in names if "/" in name})
