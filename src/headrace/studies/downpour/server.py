"""A server's process of the study's own, and models on it."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headrace._native import Client
from headrace.errors import LaunchError
from headrace.studies.downpour.cases import Transport
from headrace.studies.processes import Process

__all__ = ["ShardCounts", "Standing", "start_server"]

_START_SECONDS = 20.0
_LISTENING = "listening on "


class ShardCounts(NamedTuple):
    """What a server says of all shards of a model together; both only grow."""

    accepted: int
    """Slices of gradients."""
    apply_seconds: float
    """Of all threads."""


class Standing(NamedTuple):
    """A server that stands, and its two addresses."""

    unix: str
    tcp: str

    def address(self, transport: Transport) -> str:
        """The one that this transport takes."""
        return self.tcp if transport == "tcp" else self.unix

    def counts(self, model: str) -> ShardCounts:
        """What it says of the model's shards now."""
        client = Client(self.unix)
        try:
            shards: dict[str, Any] = client.stats()["shards"]
        finally:
            client.close()
        mine = [shard for name, shard in shards.items() if name.startswith(f"{model}/")]
        return ShardCounts(
            sum(shard["accepted"] for shard in mine), sum(float(shard["apply_seconds"]) for shard in mine)
        )


@contextlib.contextmanager
def start_server(folder: Path) -> Iterator[Standing]:
    """`headrace serve` on a Unix socket in this folder and on a free port of loopback; LaunchError where it fails."""
    listen = ["--listen", f"unix:{folder / 'server.sock'}", "--listen", "tcp://127.0.0.1:0"]
    command = [sys.executable, "-m", "headrace", "serve", "--quiet", *listen]
    with Process("headrace serve", command, folder / "server.log") as process:
        lines = [process.listen(_START_SECONDS) for _ in range(2)]
        if not all(line.startswith(_LISTENING) for line in lines):
            raise LaunchError(f"headrace serve said {lines}; it must say where it listens")
        yield Standing(*(line.removeprefix(_LISTENING) for line in lines))
