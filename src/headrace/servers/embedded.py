"""The run's own server, in the training process."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import BatchView, Server, Signature, Table
from headrace.replay.batches import Allocate, BatchesAhead
from headrace.servers.base import Endpoint

__all__ = ["EmbeddedServer", "EmbeddedTable"]


class EmbeddedTable:
    """A table in this process; implements `ReplayTable`. `native` is the native table."""

    def __init__(self, native: Table) -> None:
        self.native = native

    @property
    def signature(self) -> Signature:
        """Layout of one step."""
        return self.native.signature

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> BatchesAhead:
        """Keeps `count` batches ready in buffers of this process, filled by a native thread."""
        return BatchesAhead(self.native, batch_size, importance_exponent, count, allocate)

    def sample_into(self, batch: BatchView, importance_exponent: float, timeout_seconds: float | None = None) -> bool:
        """Fills a batch; returns False at the deadline."""
        return self.native.sample_into(batch, importance_exponent, timeout_seconds)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> int:
        """Sets priorities [B]; returns how many were applied."""
        return self.native.update_priorities(key, priority)

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""
        self.native.set_paused(paused)

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert."""
        return self.native.stats()

    def save(self, path: str) -> None:
        """Writes a snapshot."""
        self.native.save(path)

    def restore(self, path: str) -> None:
        """Loads a snapshot into an empty table."""
        self.native.restore(path)

    def close(self) -> None:
        """Releases waiting callers; later inserts raise ClosedError."""
        self.native.close()


class EmbeddedServer:
    """Implements `RunServer`: the training process calls it directly, roles connect over a Unix socket."""

    def __init__(self) -> None:
        self._server = Server()
        self._endpoint = Endpoint(self._server.listen("unix:@"))

    @property
    def endpoint(self) -> Endpoint:
        """A socket that only this user's processes on this machine can connect to."""
        return self._endpoint

    @property
    def keeps_experience(self) -> bool:
        """False: experience ends with the process."""
        return False

    def begin(self, *, fresh: bool) -> None:
        """No effect: there was no earlier start."""

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> EmbeddedTable:
        """Adds an empty table. `fresh` has no effect, since there is no earlier experience."""
        del fresh
        return EmbeddedTable(self._server.add_table(name, signature, **options))

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        return self._server.publish(name, data, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        return self._server.fetch(name, newer_than)

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""
        return self._server.drain(mailbox)

    def restarted(self) -> bool:
        """False: it lives as long as its run."""
        return False

    def outages(self) -> int:
        """0: there is no connection to lose."""
        return 0

    def close(self) -> None:
        """Closes tables and connections."""
        self._server.close()
