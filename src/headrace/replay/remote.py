"""A table on a server."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import BatchStream, Client
from headrace.errors import ReplayError, ServerError, require
from headrace.fields import read_input
from headrace.replay.base import ReplayTable
from headrace.replay.batches import Allocate, BatchBuffer, StreamedBatches

__all__ = ["Connection", "RemoteTable", "connect", "read_token"]


_MOST_TOKEN_FILE_BYTES = 8192
"""A token has at most 4096 bytes; the rest allows for surrounding white space."""


def read_token(path: str | Path, field: str = "token_file") -> bytes:
    """The secret in a token file, without surrounding white space; raises ConfigError if it can't be read.

    At most 8 KiB are read. `field` is the setting that names it.
    """
    return read_input(field, path, most=_MOST_TOKEN_FILE_BYTES).strip()


def connect(address: str, timeout_seconds: float = 10.0, token_file: str | Path | None = None) -> "Connection":
    """Connects to the server at tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND,....

    `token_file` contains the server's secret, if it requires one. A call that is interrupted, as by Ctrl-C, closes the
    connection: its answer would be taken for that of the next call. Raises StorageError if no server answers in time.
    """
    return Connection(address, timeout_seconds, token=None if token_file is None else read_token(token_file))


class Connection:
    """One connection to a server; calls from several threads are queued.

    A lost connection is retried for `reconnect_seconds`; no operation is executed twice. It is lost, too, if the server
    is silent for `request_timeout_seconds`.
    """

    def __init__(
        self,
        address: str,
        timeout_seconds: float = 10.0,
        *,
        token: bytes | None = None,
        request_timeout_seconds: float = 30.0,
        reconnect_seconds: float = 0.0,
    ) -> None:
        self._address = address
        self._options: dict[str, Any] = {
            "timeout_seconds": timeout_seconds,
            "token": token,
            "request_timeout_seconds": request_timeout_seconds,
            "reconnect_seconds": reconnect_seconds,
        }
        self.client = Client(address, **self._options)

    def table(self, name: str) -> "RemoteTable":
        """The table of this name; raises ServerError, which lists the existing tables."""
        return RemoteTable(self, name)

    def stream(self, table: str, batch_size: int, importance_exponent: float, count: int) -> StreamedBatches:
        """Batches of a table, `count` of them in flight, over their own connection."""
        return StreamedBatches(
            lambda: BatchStream(self._address, table, batch_size, importance_exponent, credit=count, **self._options)
        )

    def stats(self) -> dict[str, Any]:
        """The server's tables, parameters and connections."""
        return self.client.stats()

    def close(self) -> None:
        """Closes the connection."""
        self.client.close()


class RemoteTable(ReplayTable):
    """A table in another process."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._client = connection.client
        self._name = name
        self.signature = self._client.signature(name)

    def insert(self, *chunks: bytes | bytearray) -> int:
        """Stores chunks in one round trip; see `ReplayTable`."""
        return self._client.insert(self._name, *chunks)

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""
        return self._client.sample_into(self._name, buffer.view, importance_exponent, timeout_seconds)

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> StreamedBatches:
        """Keeps `count` batches, 2 to 64, in flight, in memory of their connection; `allocate` is not called."""
        require("count", count, 2 <= count <= 64, "from 2 to 64")
        return self._connection.stream(self._name, batch_size, importance_exponent, count)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int | None:
        """Sets priorities to |priority| [B]; see `ReplayTable`."""
        return self._client.update_priorities(self._name, key, np.abs(priority, dtype=np.float32))

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""
        self._client.set_state(self._name, "paused" if paused else "open")

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert, seconds that each side was blocked."""
        tables = self._client.stats()["tables"]
        if self._name not in tables:
            raise ServerError(
                f"table {self._name}: the server no longer has it; its tables: {', '.join(tables) or 'none'}"
            )
        return {name: value for name, value in tables[self._name].items() if name != "state"}

    def save(self, path: str | Path) -> None:
        """Raises ReplayError: the server stores the experience."""
        raise ReplayError(f"table {self._name}: no snapshot can be written to {path}; the server keeps the experience")

    def restore(self, path: str | Path) -> None:
        """Raises ReplayError: the server stores the experience."""
        raise ReplayError(f"table {self._name}: no snapshot can be read from {path}; the server keeps the experience")

    def close(self) -> None:
        """Closes the table for all users: waiting calls return, and later inserts raise ClosedError."""
        self._client.set_state(self._name, "closed")
