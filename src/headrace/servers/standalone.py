"""A separate server, which several runs may share, each under its own name."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Client, Signature
from headrace.errors import ClosedError, ConfigError, HeadraceError, ServerError
from headrace.replay.batches import Allocate, StreamedBatches
from headrace.replay.remote import Connection, RemoteTable
from headrace.servers.base import LEARNER, Endpoint, RoleServer, RunServer

__all__ = ["StandaloneRole", "StandaloneServer", "StandaloneTable", "claim_run", "open_connection"]

_CONNECT_SECONDS = 10.0
_CLAIM_SECONDS = 5.0
"""How long a predecessor's connection may take to close."""
_POLL_SECONDS = 0.1


class StandaloneRole(RoleServer):
    """A connection to a native server under a run's names."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = Client(
            endpoint.address,
            max(_CONNECT_SECONDS, endpoint.reconnect_seconds),  # it may start while the server is unavailable
            token=endpoint.secret(),
            request_timeout_seconds=endpoint.request_timeout_seconds,
            reconnect_seconds=endpoint.reconnect_seconds,
        )

    def insert(self, table: str, *chunks: bytes) -> int:
        """Stores chunks in order, waiting while the rate limiter blocks inserts; returns the key of the last one."""
        return self._client.insert(self._endpoint.name(table), *chunks)

    def post(self, table: str, *chunks: bytes, wait: bool = True) -> bool:
        """Stores chunks in order without waiting for the answer; see `RoleServer`."""
        return self._client.post_chunks(self._endpoint.name(table), *chunks, wait=wait)

    def settle(self) -> None:
        """Waits until everything posted is stored; raises the error of what was not."""
        self._client.settle()

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""
        self._client.put(self._endpoint.name(mailbox), message)

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        return self._client.publish(self._endpoint.name(name), data, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        return self._client.fetch(self._endpoint.name(name), newer_than)

    def version(self, name: str) -> int:
        """The version of a blob, without its bytes; 0 if there is none."""
        blob = self._client.stats()["parameters"].get(self._endpoint.name(name))
        return int(blob["version"]) if blob else 0

    def claim(self, name: str, owner: int) -> None:
        """Claims a name until this object is closed; raises ServerError if another owner holds it."""
        self._client.claim(self._endpoint.name(name), owner)

    def close(self) -> None:
        """Closes the connection; a waiting call raises ClosedError."""
        self._client.close()


class StandaloneTable(RemoteTable):
    """A table on a separate server. Priorities are posted: their answers are not awaited.

    `late_client` posts priorities if no batches are kept in flight. `open_again` creates the table on a server that may
    have lost it.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        late_client: Client,
        open_again: Callable[[], object],
    ) -> None:
        super().__init__(connection, name)
        self._late_client = late_client
        self._open_again = open_again
        self._batches: list[StreamedBatches] = []

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> StreamedBatches:
        """Keeps `count` batches in flight; renew() renews their connection too."""
        batches = super().batches_ahead(batch_size, importance_exponent, count, allocate)
        self._batches.append(batches)
        return batches

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> None:
        """Sends priorities [B], together with the request for a batch if batches are kept in flight.

        A later call raises the error of an earlier one.
        """
        if self._batches and not self._batches[-1].closed:
            self._batches[-1].post_priorities(key, priority)
        else:
            self._late_client.post_priorities(self._name, key, np.abs(priority, dtype=np.float32))

    def close(self) -> None:
        """Releases waiting callers; later inserts raise ClosedError. Priorities that were sent are applied first."""
        try:
            self._late_client.settle()
        finally:
            super().close()

    def renew(self) -> None:
        """Opens the table on a restarted server, empty if it was lost. Called by the thread that consumes batches."""
        self._open_again()
        for batches in self._batches:
            if not batches.closed:
                batches.renew()


class StandaloneServer(RunServer):
    """Holds the run's claim LEARNER; raises ConfigError if another learner has it.

    The server reserves the name for `owner`, and for later starts of the run with this `run_id` (hexadecimal), as long
    as a lost connection is retried; close() releases it.

    Priorities have their own connection, on which no answer is awaited, so that the learner does not wait for a distant
    server.
    Publications have another connection, on which they wait for each other, since a policy may be large. A thread that
    must not wait should leave publishing to another thread.
    """

    def __init__(self, endpoint: Endpoint, owner: int, run_id: str = "") -> None:
        self._endpoint = endpoint
        self._tables: dict[str, StandaloneTable] = {}
        self._begun = self._emptied = False
        with contextlib.ExitStack() as undo:
            self._connection = undo.enter_context(contextlib.closing(open_connection(endpoint)))
            self._late_connection = undo.enter_context(contextlib.closing(open_connection(endpoint)))
            self._publications = undo.enter_context(contextlib.closing(open_connection(endpoint)))
            self._client = self._connection.client
            claim_run(self._client, endpoint, owner, run_id)
            undo.pop_all()
        self._instance = self._client.instance

    @property
    def endpoint(self) -> Endpoint:
        """How roles connect to it."""
        return self._endpoint

    @property
    def keeps_experience(self) -> bool:
        """True: experience outlives the run."""
        return True

    def begin(self, *, fresh: bool) -> None:
        """Drops blobs and shards of earlier starts, with `fresh` all data of the run; each of them only once."""
        if not self._begun:
            self._begun = True
            self._drop_each("parameters")
            self._drop_each("shards")  # after the notice: a worker that finds no shards waits for the next one
        if fresh and not self._emptied:
            self._emptied = True
            self._drop_each("mailboxes")
            self._drop_each("tables")

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> StandaloneTable:
        """A table of the run; calls begin() if that was not done before, unless the first table is refused."""
        full_name = self._endpoint.name(name)
        try:
            self._client.open_table(full_name, signature, fresh=fresh, **options)
        except ServerError:
            if self._emptied or not fresh or not self._names("tables") - {full_name}:
                raise
            self.begin(fresh=True)  # what an earlier run left under other names may have taken the memory
            self._client.open_table(full_name, signature, fresh=True, **options)
        table = StandaloneTable(
            self._connection,
            full_name,
            self._late_connection.client,
            lambda: self._client.open_table(full_name, signature, fresh=False, **options),
        )
        self._tables[full_name] = table
        self.begin(fresh=fresh)
        return table

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        return self._publications.client.publish(self._endpoint.name(name), data, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        return self._client.fetch(self._endpoint.name(name), newer_than)

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""
        return self._client.drain(self._endpoint.name(mailbox))

    def restarted(self) -> bool:
        """Whether the server that answered last is a different instance; see `RunServer`."""
        before, self._instance = self._instance, self._client.instance
        if self._instance == before:
            return False
        with contextlib.suppress(HeadraceError):  # errors of priorities for the previous server do not matter
            self._late_connection.client.settle()
        self._drop_each("parameters")  # late blobs of earlier versions would block new publications
        for table in self._tables.values():
            table.renew()
        return True

    def outages(self) -> int:
        """Number of times that one of the connections was lost and restored."""
        connections = (self._connection, self._late_connection, self._publications)
        return sum(connection.client.reconnections for connection in connections)

    def close(self) -> None:
        """Closes the connections, which releases the claim."""
        self._connection.close()
        self._late_connection.close()
        self._publications.close()

    def _drop_each(self, kind: str) -> None:
        """Drops what the run has of a kind, as the server's statistics call it, but this start's tables."""
        for name in self._names(kind) - self._tables.keys():
            self._client.drop(name)

    def _names(self, kind: str) -> set[str]:
        prefix = self._endpoint.name("")
        return {name for name in self._client.stats()[kind] if name.startswith(prefix)}


def claim_run(client: Client, endpoint: Endpoint, owner: int, run_id: str = "") -> None:
    """Claims LEARNER for as long as the client is connected; waits for a predecessor's connection to close.

    Raises ConfigError if another learner keeps it.
    """
    run = int(run_id, 16) if run_id else 0
    deadline = time.monotonic() + _CLAIM_SECONDS
    while True:
        try:
            return client.claim(endpoint.name(LEARNER), owner, run, endpoint.reconnect_seconds)
        except ClosedError:
            raise
        except ServerError as error:
            if time.monotonic() >= deadline:
                raise ConfigError(
                    f"run is {endpoint.run}; it must be one without a learner on {endpoint.address}; {error}"
                ) from None
        time.sleep(_POLL_SECONDS)


def open_connection(endpoint: Endpoint) -> Connection:
    """A connection to a native server for a role that samples; StorageError if no server answers in time."""
    return Connection(
        endpoint.address,
        _CONNECT_SECONDS,
        token=endpoint.secret(),
        request_timeout_seconds=endpoint.request_timeout_seconds,
        reconnect_seconds=endpoint.reconnect_seconds,
    )
