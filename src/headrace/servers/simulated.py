"""The server of a simulated run: native tables, parameters and mailboxes in this process, called without their waits.

Waiting happens in simulated time (`headrace.clock`). Shards are those of a native server that listens on a Unix socket:
a call of it ends before another thread runs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace._native import Server, Signature
from headrace.clock import monotonic, new_condition
from headrace.errors import ClosedError, ServerError
from headrace.replay.batches import Allocate, BatchBuffer, Batches
from headrace.replay.mixture import SampledBatches
from headrace.replay.table import Table
from headrace.servers.base import RECONNECT_SECONDS, Endpoint, RunServer

__all__ = ["SCHEME", "SimulatedServer", "SimulatedTable", "find_server"]

SCHEME = "simulated:"
_servers: dict[str, "SimulatedServer"] = {}


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
        self._endpoint = Endpoint(address, reconnect_seconds=RECONNECT_SECONDS)
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
                back = self._changed.wait_for(lambda: self._closed or not self._away, RECONNECT_SECONDS)
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
