"""Connections of roles to the server of a simulated run: every request takes the time of its link and of processors."""

from collections import deque
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.clock import new_condition, serve, spend, start_thread, transfer
from headrace.errors import ClosedError, ServerError
from headrace.replay.batches import BatchBuffer
from headrace.replay.table import Table
from headrace.servers.base import Endpoint, RoleServer
from headrace.servers.simulated import SimulatedServer, SimulatedTable, find_server

__all__ = ["SimulatedRole", "SimulatedTables", "answer", "send"]

_MESSAGE_BYTES = 64
"""Bytes of a request or answer without its contents."""
_MOST_POSTED, _MOST_POSTED_BYTES = 4, 1 << 20
"""Chunks that a connection may have on the way, as the native client's."""


def send(count: int) -> None:
    """A request with `count` bytes of contents goes to the server."""
    transfer(_MESSAGE_BYTES + count)


def answer(sent: int, count: int = 0) -> None:
    """The server answers a request of `sent` bytes with `count`; both sides have worked for it by the end."""
    serve("answer", sent + count)
    transfer(0, _MESSAGE_BYTES + count)
    spend("request", sent + count)


class SimulatedRole(RoleServer):
    """A role's connection; every call takes the time of its messages."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._server = find_server(endpoint.address)
        self._closed = False
        self._changed = new_condition()
        self._posted: deque[tuple[str, bytes]] = deque()
        self._error: Exception | None = None
        self._carries = False

    def insert(self, table: str, *chunks: bytes) -> int | None:
        """Stores chunks in order, waiting while the rate limiter blocks inserts; returns the key of the last one."""
        size = sum(map(len, chunks))
        self._send(size)
        key = self._server.table(table).insert(*chunks)
        answer(size)
        return key

    def post(self, table: str, *chunks: bytes, wait: bool = True) -> bool:
        """Stores chunks in order without waiting for the answer; see `RoleServer`."""
        self._raise_error()
        with self._changed:
            if not wait and not self._has_room():
                return False
            self._changed.wait_for(lambda: self._has_room() or self._error)
            self._posted.extend((table, chunk) for chunk in chunks)
            self._changed.notify_all()
        self._raise_error()
        if not self._carries:
            self._carries = True
            start_thread(self._carry, "chunks")
        return True

    def settle(self) -> None:
        """Waits until everything posted is stored; raises the error of what was not."""
        with self._changed:
            self._changed.wait_for(lambda: not self._posted or self._error or self._closed)
        self._raise_error()

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""
        self._send(len(message))
        self._server.put(mailbox, message)
        answer(len(message))

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        self._send(len(data))
        published = self._server.publish(name, data, version)
        answer(len(data))
        return published

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        self._send(0)
        found = self._server.fetch(name, newer_than)
        answer(0, len(found[1]) if found else 0)
        return found

    def version(self, name: str) -> int:
        """The version of a blob, without its bytes; 0 if there is none."""
        self._send(0)
        version = self._server.version(name)
        answer(0)
        return version

    def claim(self, name: str, owner: int) -> None:
        """Claims a name until this object is closed; raises ServerError if another owner holds it."""
        self._send(0)
        self._server.claim(name, owner, self)
        answer(0)

    def close(self) -> None:
        """Closes the connection, which ends its claims; runs even when the process is killed."""
        self._closed = True
        self._server.release(self)
        with self._changed:
            self._changed.notify_all()

    def _send(self, count: int) -> None:
        if self._closed:
            raise ClosedError("the connection is closed")
        send(count)

    def _has_room(self) -> bool:
        waiting = sum(len(chunk) for _, chunk in self._posted)
        return len(self._posted) < _MOST_POSTED and waiting < _MOST_POSTED_BYTES

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError("the connection is closed")

    def _carry(self) -> None:
        """Takes posted chunks to the server, in a thread of the role: in a request all that came meanwhile."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._posted or self._closed)
                if self._closed:
                    return
                table, posted = next(groupby(self._posted, itemgetter(0)))
                chunks = [chunk for _, chunk in posted]
            try:
                self.insert(table, *chunks)
            except Exception as error:
                self._error = error
            with self._changed:
                for _ in chunks:
                    self._posted.popleft()
                self._changed.notify_all()
            if self._error is not None:
                return


class SimulatedTables:
    """A connection of a role that samples."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._server = find_server(endpoint.address)

    def table(self, name: str) -> "_RemoteTable":
        """The table of this name; raises ServerError."""
        return _RemoteTable(self._server, self._server.table(name))

    def close(self) -> None:
        """There is nothing to release."""


class _RemoteTable(Table):
    """A table of the server as a role calls it over its link."""

    def __init__(self, server: SimulatedServer, table: SimulatedTable) -> None:
        self._server, self._table = server, table
        self.signature = table.signature

    def insert(self, *chunks: bytes | bytearray, timeout_seconds: float | None = None) -> int | None:
        """Stores chunks; see `Table`."""
        size = sum(map(len, chunks))
        send(size)
        key = self._table.insert(*chunks, timeout_seconds=timeout_seconds)
        answer(size)
        return key

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""
        send(0)
        sampled = self._table.sample_into(buffer, importance_exponent, timeout_seconds)
        answer(0, sum(array.nbytes for array in buffer.arrays) if sampled else 0)
        return sampled

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int:
        """Sets priorities to |priority| [B]; see `ReplayTable`."""
        size = key.nbytes + priority.nbytes
        send(size)
        updated = self._table.update_priorities(key, priority)
        answer(size)
        return updated

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert."""
        send(0)
        stats = self._table.stats()
        answer(0)
        return stats

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""
        send(0)
        self._table.set_paused(paused)
        answer(0)

    def save(self, path: str | Path) -> None:
        """Raises ServerError: the server stores the experience."""
        raise ServerError(f"no snapshot can be written to {path}; the server keeps the experience")

    restore = save

    def close(self) -> None:
        """Closes the table for all users."""
        self._table.close()
