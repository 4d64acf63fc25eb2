"""The server of a simulated run: native tables, parameters and mailboxes in this process, called without their waits.

Waiting happens in simulated time (`headrace.clock`), and every call of a role takes the time of its link. Shards are
those of a native server that listens on a Unix socket: a call of it ends before another thread runs.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, Server, ShardedModel, Signature
from headrace.clock import monotonic, new_condition, serve, spend, start_thread, transfer
from headrace.errors import ClosedError, ConfigError, ServerError
from headrace.replay.batches import Allocate, BatchBuffer, Batches
from headrace.replay.mixture import SampledBatches
from headrace.replay.table import Table
from headrace.servers.base import Endpoint, RoleServer, RunServer

__all__ = ["SCHEME", "SimulatedRole", "SimulatedServer", "SimulatedShards", "SimulatedTables"]

SCHEME = "simulated:"
_RECONNECT_SECONDS = 60.0
_MESSAGE_BYTES = 64
"""Bytes of a request or answer without its contents."""
_MOST_POSTED, _MOST_POSTED_BYTES = 4, 1 << 20
"""Chunks that a connection may have on the way, as the native client's."""
_servers: dict[str, "SimulatedServer"] = {}


def send(count: int) -> None:
    """A request with `count` bytes of contents goes to the server."""
    transfer(_MESSAGE_BYTES + count)


def answer(sent: int, count: int = 0) -> None:
    """The server answers a request of `sent` bytes with `count`; both sides have worked for it by the end."""
    serve("answer", sent + count)
    transfer(0, _MESSAGE_BYTES + count)
    spend("request", sent + count)


class SimulatedTable(Table):
    """A table of the server, in the training process; waits in simulated time."""

    def __init__(self, server: "SimulatedServer", signature: Signature, **options: Any) -> None:
        super().__init__(signature, **options)
        self._server = server
        self._options = options

    def insert(self, *chunks: bytes | bytearray, timeout_seconds: float | None = None) -> int | None:
        """Stores chunks; see `Table`."""
        key: int | None = None
        for chunk in chunks:
            if (key := self._server.attempt(partial(self._insert, chunk), timeout_seconds)) is None:
                break
        return key

    def _insert(self, chunk: bytes | bytearray) -> int | None:
        return self.native.insert(chunk, 0.0)

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""
        view = buffer.view
        sampled = self._server.attempt(
            lambda: self.native.sample_into(view, importance_exponent, 0.0) or None, timeout_seconds
        )
        return bool(sampled)

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> Batches:
        """Batches that are sampled on request: no native thread runs."""
        return SampledBatches(self, batch_size, importance_exponent, allocate)

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""
        super().set_paused(paused)
        self._server.notify()

    def close(self) -> None:
        """Releases waiting callers; later calls raise ClosedError."""
        super().close()
        self._server.notify()

    def lose(self) -> None:
        """Empties it, as a server that restarts without its data."""
        super().close()
        self.native = Table(self.signature, **self._options).native


class SimulatedServer(RunServer):
    """The run's server; without faults it lasts as long as the run."""

    def __init__(self, address: str) -> None:
        self._endpoint = Endpoint(address, reconnect_seconds=_RECONNECT_SECONDS)
        self._native = Server()
        self._shards = Server()
        self.shard_address = ""
        self.tables: dict[str, SimulatedTable] = {}
        self._changed = new_condition()
        self._claims: dict[str, tuple[int, object]] = {}  # the owner, and its connection
        self._away = self._closed = False
        self._outages = self._reported_outages = 0
        self.lost_shards = False
        """Whether the shards were lost with a server."""
        _servers[address] = self

    @property
    def endpoint(self) -> Endpoint:
        """How roles connect to it."""
        return self._endpoint

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> SimulatedTable:
        """Adds an empty table. `fresh` has no effect, since there is no earlier experience."""
        del fresh
        self.tables[name] = SimulatedTable(self, signature, **options)
        return self.tables[name]

    def table(self, name: str) -> SimulatedTable:
        """The table of this name; raises ServerError."""
        if name not in self.tables:
            raise ServerError(f"table {name}: there is none; its tables: {', '.join(self.tables) or 'none'}")
        return self.tables[name]

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        return self.reach().publish(name, data, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        return self.reach().fetch(name, newer_than)

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""
        self.reach().put(mailbox, message)

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""
        return self.reach().drain(mailbox)

    def version(self, name: str) -> int:
        """The version of a blob; 0 if there is none."""
        blob = self.reach().stats()["parameters"].get(name)
        return int(blob["version"]) if blob else 0

    def claim(self, name: str, owner: int, connection: object) -> None:
        """Claims a name until release(); raises ServerError if another owner holds it.

        The same owner may claim it again over another connection, whose end then counts.
        """
        self.reach()
        if name in self._claims and self._claims[name][0] != owner:
            raise ServerError(f"{name} is claimed by another owner")
        self._claims[name] = owner, connection

    def release(self, connection: object) -> None:
        """Ends the claims of a connection."""
        self._claims = {name: claim for name, claim in self._claims.items() if claim[1] is not connection}

    def restarted(self) -> bool:
        """Whether it was restarted since the last call, so that published data is lost."""
        before, self._reported_outages = self._reported_outages, self._outages
        return before != self._outages

    def outages(self) -> int:
        """Number of times that it was away."""
        return self._outages

    def close(self) -> None:
        """Closes tables and connections."""
        self._closed = True
        _servers.pop(self._endpoint.address, None)
        for table in self.tables.values():
            table.close()
        self.notify()
        self._native.close()
        self._shards.close()

    def stop(self) -> None:
        """Goes away: calls wait until start()."""
        self._away = True

    def start(self, *, keeps: bool) -> None:
        """Comes back without blobs and messages; without `keeps` also without experience and shards."""
        self._away = False
        self._outages += 1
        self._native.close()
        self._native = Server()
        if not keeps:
            self.lost_shards = bool(self.shard_address)
            for table in self.tables.values():
                table.lose()
        self.notify()

    def notify(self) -> None:
        """Lets waiting calls look again."""
        with self._changed:
            self._changed.notify_all()

    def reach(self) -> Server:
        """The native server, once it is there; raises ClosedError."""
        if self._away or self._closed:
            with self._changed:
                back = self._changed.wait_for(lambda: self._closed or not self._away, _RECONNECT_SECONDS)
            if self._closed or not back:
                raise ClosedError("the server is gone")
        return self._native

    def attempt(self, call: Callable[[], int | None], timeout_seconds: float | None) -> int | None:
        """Calls again after each change of the server until the result is not None, or until the deadline."""
        deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
        self.reach()
        if (result := call()) is None and timeout_seconds != 0:
            found: list[int] = []

            def try_again() -> bool:
                value = None if self._away else call()
                found.extend([] if value is None else [value])
                return bool(found)

            with self._changed:
                left = None if deadline is None else deadline - monotonic()
                self._changed.wait_for(try_again, left)
            result = found[0] if found else None
        if result is not None:
            self.notify()
        return result

    def listen_for_shards(self) -> str:
        """The address of the native server that has the shards."""
        if not self.shard_address:
            self.shard_address = self._shards.listen("unix:@")
        return self.shard_address


def find_server(address: str) -> SimulatedServer:
    """The server of a run that is going on; raises ClosedError."""
    if address not in _servers:
        raise ClosedError("the simulated run has ended")
    return _servers[address]


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
        size = sum(map(len, chunks))
        with self._changed:
            if not wait and not self._has_room(size):
                return False
            self._changed.wait_for(lambda: self._has_room(size) or self._error)
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

    def _has_room(self, size: int) -> bool:
        waiting = sum(len(chunk) for _, chunk in self._posted)
        return not self._posted or (len(self._posted) < _MOST_POSTED and waiting + size <= _MOST_POSTED_BYTES)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError("the connection is closed")

    def _carry(self) -> None:
        """Takes posted chunks to the server, in a thread of the role."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._posted or self._closed)
                if self._closed:
                    return
                table, chunk = self._posted[0]
            try:
                self.insert(table, chunk)
            except Exception as error:
                self._error = error
            with self._changed:
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


class SimulatedShards:
    """A model in shards of the run's server, over a simulated link; has the methods of `ShardedModel`.

    The training process, which makes the shards, reaches them without the link.
    """

    def __init__(self, endpoint: Endpoint, name: str, count: int, shards: int, servers: Sequence[str]) -> None:
        if servers:
            raise ConfigError(f"shard_servers is {' '.join(servers)}; it must be left out with launcher simulated")
        self._server = find_server(endpoint.address)
        self._model = ShardedModel([self._server.listen_for_shards()], name, count, shards=shards)
        self._bytes = 4 * count
        self._linked = True

    @property
    def reconnections(self) -> int:
        """Number of times that the server was away."""
        return self._server.outages()

    def open(
        self, optimizer: OptimizerOptions, initial: NDArray[np.float32] | None, *, fresh: bool, **options: Any
    ) -> int:
        """Makes or joins the shards; see `ShardedModel`."""
        self._linked = not fresh
        self._ask(0)
        version = self._model.open(optimizer, initial, fresh=fresh, **options)
        self._answer(0)
        return version

    def push(self, gradient: NDArray[np.float32]) -> tuple[int, int, str]:
        """Applies a gradient [P]; see `ShardedModel`."""
        self._ask(self._bytes)
        serve("apply")
        pushed = self._model.push(gradient)
        self._answer(self._bytes)
        return pushed

    def fetch_into(self, parameters: NDArray[np.float32]) -> int | None:
        """Brings [P] up to date; see `ShardedModel`."""
        self._ask(0)
        version = self._model.fetch_into(parameters)
        self._answer(0, 0 if version is None else self._bytes)
        return version

    def state(self) -> tuple[int, NDArray[np.float32]]:
        """Version, and parameters and moments [1 + M, P]."""
        self._ask(0)
        return self._model.state()

    def load(self, version: int, state: NDArray[np.float32]) -> None:
        """Puts back what state() gave."""
        self._ask(state.nbytes)
        self._model.load(version, state)

    def close(self) -> None:
        """Closes the connection."""
        self._model.close()

    def _ask(self, count: int) -> None:
        if self._linked:
            send(count)
        self._server.reach()
        if self._server.lost_shards:
            raise ServerError("the server was restarted and has no shards of this model any more")

    def _answer(self, sent: int, count: int = 0) -> None:
        if self._linked:
            answer(sent, count)
