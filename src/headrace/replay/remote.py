"""A table behind a server."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Client, Signature
from headrace.replay.batches import BatchBuffer
from headrace.replay.writer import Writer
from headrace.types import Batch

__all__ = ["Connection", "RemoteTable", "connect"]


def connect(address: str, timeout_seconds: float = 10.0) -> "Connection":
    """Connects to the server at "unix:PATH" or "unix:@NAME"; raises StorageError where none answers in time."""
    return Connection(Client(address, timeout_seconds))


class Connection:
    """One connection to a server; calls from several threads queue."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def table(self, name: str) -> "RemoteTable":
        """The table of that name; raises ReplayError, naming those there are."""
        return RemoteTable(self.client, name)

    def stats(self) -> dict[str, Any]:
        """The server's tables, parameters and connections."""
        return self.client.stats()

    def close(self) -> None:
        """Closes the connection."""
        self.client.close()


class RemoteTable:
    """The calls of `Table` on a table in another process; implements `Replay`."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._signature = client.signature(name)

    @property
    def signature(self) -> Signature:
        """What one step looks like."""
        return self._signature

    def writer(self, *, n_step: int = 1, discount: float = 0.99, chunk_steps: int = 50, actor: int = 0) -> Writer:
        """A writer for one environment."""
        return Writer(self, n_step=n_step, discount=discount, chunk_steps=chunk_steps, actor=actor)

    def insert(self, chunk: bytes, timeout_seconds: float | None = None) -> int | None:
        """Stores a chunk, and waits for the limiter as long as it holds; see `Replay`."""
        return self._client.insert(self._name, chunk)

    def sample(
        self, batch_size: int, importance_exponent: float = 0.4, timeout_seconds: float | None = None
    ) -> Batch | None:
        """B transitions in arrays of their own; see `Replay`."""
        buffer = BatchBuffer(self.signature, batch_size)
        return buffer.arrays if self.sample_into(buffer, importance_exponent, timeout_seconds) else None

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """B transitions into reused arrays; see `Replay`."""
        return self._client.sample_into(self._name, buffer.view, importance_exponent, timeout_seconds)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int:
        """Sets priorities to |priority| [B]; see `Replay`."""
        return self._client.update_priorities(self._name, key, np.abs(priority, dtype=np.float32))
