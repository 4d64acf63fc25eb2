"""Sources of the learner's batches, the only difference between the variants."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from headrace._native import Table as NativeTable
from headrace.errors import ClosedError, LaunchError
from headrace.replay import BatchBuffer, BatchesAhead, ReplayTable
from headrace.replay.remote import connect
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import REPLAY
from headrace.servers.base import RunServer
from headrace.studies.in_network.case import Variant
from headrace.studies.in_network.experience import EXPERIENCE, count_steps, signature
from headrace.types import Batch

__all__ = ["PullRate", "Source", "open_source"]

_CAPACITY = 20_000
_PRIORITY_EXPONENT = 0.6
_IMPORTANCE_EXPONENT = 0.4
_CREDIT = 4  # batches ready or in flight
_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.001


class PullRate(NamedTuple):
    """Rate of one large pull of experience."""

    transitions: float
    wire_bytes: float
    """Bytes per second. Chunks hold each frame about once; batches hold all frames of each transition."""


class Source(Protocol):
    """Batches for one learner thread."""

    @property
    def table(self) -> NativeTable | ReplayTable:
        """The table that takes the priorities: in this process, or in the server, whose answer is not awaited."""

    def next(self, clock: PhaseClock) -> Batch:
        """The next batch; records the phases that it takes: pull, store, sample, wait."""

    def pull(self, count_bytes: int) -> PullRate:
        """One large pull of the chunks, this many bytes, that the actors sent for it; the last call."""

    def close(self) -> None:
        """Ends threads and connections."""


def open_source(variant: Variant, server: RunServer, batch_size: int, min_size: int) -> Source:
    """The source of a variant; the first batch comes after `min_size` transitions."""
    options: dict[str, Any] = {
        "capacity": _CAPACITY,
        "priority_exponent": _PRIORITY_EXPONENT,
        "min_size": min_size,
        "seed": 0,
    }
    if variant == "server":
        return _Streamed(server, server.add_table(REPLAY.name, signature(), fresh=True, **options), batch_size)
    pulled = _Pulled if variant != "redis-ahead" else _PulledAhead
    return pulled(lambda: server.drain(EXPERIENCE), NativeTable(signature(), **options), batch_size)


class _Pulled:
    """Pulls all new experience, stores it and samples, sequentially in the learner's thread."""

    def __init__(self, drain: Callable[[], list[bytes]], table: NativeTable, batch_size: int) -> None:
        self._drain = drain
        self.table = table
        self._buffer = BatchBuffer(signature(), batch_size)

    def next(self, clock: PhaseClock) -> Batch:
        """The next batch."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while True:
            clock.enter("pull")
            chunks = self._drain()
            clock.enter("store")
            for chunk in chunks:
                self.table.insert(chunk)
            clock.enter("sample")
            if self.table.sample_into(self._buffer.view, _IMPORTANCE_EXPONENT, 0.0):
                return self._buffer.arrays
            if time.monotonic() > deadline:
                raise LaunchError(f"no batch in {_LIMIT_SECONDS:g} s; the table holds {self.table.size} transitions")

    def pull(self, count_bytes: int) -> PullRate:
        """Pulls until this many bytes have arrived."""
        chunks: list[bytes] = []
        started = time.perf_counter()
        while (moved := sum(map(len, chunks))) < count_bytes:
            if time.perf_counter() > started + _LIMIT_SECONDS:
                raise LaunchError(
                    f"{moved} bytes of experience came in {_LIMIT_SECONDS:g} s; {count_bytes} were left there"
                )
            chunks += self._drain()
        seconds = time.perf_counter() - started
        return PullRate(sum(map(count_steps, chunks)) / seconds, moved / seconds)

    def close(self) -> None:
        """Does nothing: there are no threads."""


class _PulledAhead(_Pulled):
    """The same, but one thread pulls and stores, and another one samples ahead."""

    def __init__(self, drain: Callable[[], list[bytes]], table: NativeTable, batch_size: int) -> None:
        super().__init__(drain, table, batch_size)
        self._batches = BatchesAhead(table, batch_size, _IMPORTANCE_EXPONENT, _CREDIT)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="puller", daemon=True)
        self._thread.start()

    def next(self, clock: PhaseClock) -> Batch:
        """The next batch."""
        clock.enter("wait")
        batch = self._batches.next(_LIMIT_SECONDS)
        if self._error:
            raise self._error
        return _there(batch)

    def pull(self, count_bytes: int) -> PullRate:
        """Returns nan: the thread has already taken the chunks as the baseline does."""
        return PullRate(math.nan, math.nan)

    def close(self) -> None:
        """Ends both threads."""
        self._stop.set()
        self._thread.join()
        self._batches.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                chunks = self._drain()
                for chunk in chunks:
                    self.table.insert(chunk)
                if not chunks:
                    self._stop.wait(_POLL_SECONDS)
        except BaseException as error:  # raised later in the learner's thread
            self._error = error
            self.table.close()


class _Streamed:
    """The server samples and keeps batches in flight."""

    def __init__(self, server: RunServer, table: ReplayTable, batch_size: int) -> None:
        self._endpoint = server.endpoint
        self.table = table
        self._batch_size = batch_size
        self._batches = table.batches_ahead(batch_size, _IMPORTANCE_EXPONENT, _CREDIT)

    def next(self, clock: PhaseClock) -> Batch:
        """The next batch."""
        clock.enter("wait")
        return _there(self._batches.next(_LIMIT_SECONDS))

    def pull(self, count_bytes: int) -> PullRate:
        """Requests one batch at a time until this many bytes have come."""
        self._batches.close()
        endpoint = self._endpoint
        connection = connect(endpoint.address, token_file=endpoint.token_file or None)
        table = connection.table(endpoint.name(REPLAY.name))
        buffer = BatchBuffer(signature(), self._batch_size)
        moved = sum(field.nbytes for field in buffer.arrays)
        table.sample_into(buffer, _IMPORTANCE_EXPONENT, _LIMIT_SECONDS)  # touches its memory for the first time
        times = max(1, count_bytes // moved)
        started = time.perf_counter()
        for _ in range(times):
            table.sample_into(buffer, _IMPORTANCE_EXPONENT, _LIMIT_SECONDS)
        seconds = time.perf_counter() - started
        connection.close()
        return PullRate(times * self._batch_size / seconds, times * moved / seconds)

    def close(self) -> None:
        """Closes the connection for batches."""
        self._batches.close()


def _there(batch: Batch | None) -> Batch:
    if batch is None:
        raise ClosedError(f"no batch in {_LIMIT_SECONDS:g} s")
    return batch
