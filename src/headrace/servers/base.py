"""The contract of every server for a run's experience, parameters and reports."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace._native import Signature
from headrace.parameters.base import ParameterStore
from headrace.replay.base import ReplayTable
from headrace.replay.remote import read_token

__all__ = ["LEARNER", "RECONNECT_SECONDS", "SCHEMES", "Endpoint", "RoleServer", "RunServer", "absolute", "is_redis",
           "shown"]  # fmt: skip

SCHEMES = ("tcp://", "unix:", "dpdk:")
"""With which the address of a server of this package begins."""
RECONNECT_SECONDS = 60.0
"""How long a lost connection to a server that may be restarted is retried."""
LEARNER = "learner"
"""The claim held by a run's learner."""
_SILENT_SECONDS = 30.0
"""Silence after which a connection to a server elsewhere is made again."""


@dataclass(frozen=True)
class Endpoint:
    """Everything that a role needs to connect to its run's server; sent as JSON.

    `address` is tcp://HOST:PORT, unix:PATH, unix:@NAME, dpdk:KIND,... or redis://HOST:PORT[/DB]. A run's names on the
    server are "RUN/NAME", or unchanged if `run` is empty (a server that belongs to one run). `token_file` contains the
    server's secret, if it requires one; `token` is the secret itself, for roles on machines without that file. A lost
    connection is retried for `reconnect_seconds`.
    """

    address: str
    run: str = ""
    token_file: str = ""
    reconnect_seconds: float = 0.0
    token: str = field(default="", repr=False)

    def secret(self) -> bytes | None:
        """The server's secret; None if there is none. Raises ConfigError if the token file can't be read."""
        if self.token:
            return self.token.encode()
        return read_token(self.token_file) if self.token_file else None

    @property
    def request_timeout_seconds(self) -> float:
        """How long the server may be silent before its connection counts as lost.

        Without `reconnect_seconds` it belongs to the run's own process, whose end closes the connection: no limit,
        because Ctrl-Z may stop that process, and not those of its roles.
        """
        return _SILENT_SECONDS if self.reconnect_seconds else math.inf

    def name(self, name: str) -> str:
        """The full name of a run's table, blob, mailbox or claim."""
        return f"{self.run}/{name}" if self.run else name


def is_redis(address: str) -> bool:
    """Whether an address is meant for Redis."""
    return address.startswith(("redis:", "rediss:"))


def absolute(address: str) -> str:
    """The address of the same server in another folder: the path of a Unix socket may be relative."""
    if not address.startswith("unix:") or address.startswith("unix:@"):
        return address
    return f"unix:{Path(address.removeprefix('unix:')).absolute()}"


def shown(address: str) -> str:
    """An address without the password that a Redis address may contain, even if the address is malformed."""
    if address.startswith(("unix:", "dpdk:")):
        return address
    scheme, rest = re.fullmatch(r"(\w+:/+)?(.*)", address, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    login, _, place = rest.rpartition("@")
    user = login.partition(":")[0]
    return scheme + (f"{user}@" if user else "") + place


class RoleServer(ParameterStore, Protocol):
    """A run's server as one of its roles sees it; names are without the run's prefix.

    Every method may be called from any thread, and raises ClosedError once the run or the server is gone.
    """

    def version(self, name: str) -> int:
        """The version of a blob, without its bytes; 0 if there is none."""

    def insert(self, table: str, *chunks: bytes) -> object:
        """Stores chunks in order, in one round trip; waits while the rate limiter blocks inserts."""

    def post(self, table: str, *chunks: bytes, wait: bool = True) -> bool:
        """Stores chunks in order without waiting until they are stored.

        While too many chunks are not, it waits, or without `wait` takes none of these and returns False. A later call
        of post() or settle() raises the error of an earlier one. The default waits for each, as insert() does.
        """
        del wait
        self.insert(table, *chunks)
        return True

    def settle(self) -> None:
        """Waits until everything posted is stored."""
        return

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""

    def claim(self, name: str, owner: int) -> None:
        """Claims a name until this object is closed; raises ServerError if another owner holds it."""

    def close(self) -> None:
        """Closes the connection, from any thread; a waiting call raises ClosedError."""


class RunServer(ParameterStore, Protocol):
    """A run's server as the training process sees it. Every method may be called from any thread.

    The defaults are those of a server that lives as long as its run.
    """

    @property
    def endpoint(self) -> Endpoint:
        """How roles connect to it."""

    @property
    def keeps_experience(self) -> bool:
        """Whether experience outlives the training process on the server: then checkpoints contain none."""
        return False

    @property
    def serves_samples(self) -> bool:
        """Whether roles can sample from its tables."""
        return True

    def begin(self, *, fresh: bool) -> None:
        """Drops what earlier starts of the run published and their shards, and with `fresh` all its data.

        add_table() implies it.
        """
        del fresh  # nothing is left of an earlier start

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> ReplayTable:
        """The run's table, with options of `headrace._native.Table`; without `fresh`, with its earlier experience."""

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""

    def restarted(self) -> bool:
        """Whether the server was restarted since the last call, so that published data is lost.

        A table that it lost is created again, empty. Raises ServerError if that is impossible.
        """
        return False

    def outages(self) -> int:
        """Number of times that a lost connection of this process was restored."""
        return 0

    def close(self) -> None:
        """Ends connections and threads, and an embedded server."""
