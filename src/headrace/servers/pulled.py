"""A table in the learner's process, filled by a thread that pulls chunks from a queue: the published baseline."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace.errors import ChunkRefused, ClosedError
from headrace.replay.batches import Allocate, BatchBuffer, Batches
from headrace.replay.mixture import SampledBatches
from headrace.replay.table import Table

__all__ = ["PulledTable"]

_INSERT_SECONDS = 0.1
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.001, 0.016
_JOIN_SECONDS = 1.0
_REFUSALS = 16


class PulledTable(Table):
    """Pulls all experience and samples on request in this process.

    `pull()` returns the chunks that have arrived, which may be none. One thread calls it, starting with the first
    requested batch, so that a snapshot can be restored before. While the table is paused, the queue fills and blocks
    the actors. `end()` tells senders that the queue is no longer read. A chunk that does not fit may come from a stray
    actor: it is counted in stats() and ignored. If none of the first 16 chunks fits, or if `pull` fails, every later
    call raises that error.
    """

    def __init__(
        self, signature: Signature, pull: Callable[[], list[bytes]], end: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(signature, **options)
        self._pull = pull
        self._end = end
        self._stop = threading.Event()
        self._lock = threading.Lock()  # guards the fields below
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        self._chunks = self._bytes = self._refused = 0
        self._pull_seconds = self._idle_seconds = 0.0

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> Batches:
        """Batches of B transitions, sampled on request: none are prepared ahead, regardless of `count`."""
        return SampledBatches(self, batch_size, importance_exponent, allocate)

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples a batch; returns False at the deadline."""
        self._start()
        self._check()
        try:
            return super().sample_into(buffer, importance_exponent, timeout_seconds)
        except ClosedError:
            self._check()
            raise

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int:
        """Sets priorities to |priority| [B]; see `ReplayTable`."""
        self._check()
        return super().update_priorities(key, priority)

    def stats(self) -> dict[str, float]:
        """The table's statistics, and those of pulling: chunks, bytes, seconds with and without chunks, refusals."""
        self._check()
        with self._lock:
            return {
                **super().stats(),
                "pulled_chunks": self._chunks,
                "pulled_bytes": self._bytes,
                "pull_seconds": self._pull_seconds,
                "pull_idle_seconds": self._idle_seconds,
                "refused_chunks": self._refused,
            }

    def close(self) -> None:
        """Ends pulling, releases waiting callers, and ends the actors."""
        with self._lock:
            again, thread = self._stop.is_set(), self._thread
            self._stop.set()
        super().close()
        if again:
            return
        self._end()
        if thread:
            thread.join(_JOIN_SECONDS)  # if it waits for a lost queue, it ends with its connection

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="puller", daemon=True)
                self._thread.start()

    def _check(self) -> None:
        with self._lock:
            if self._error:
                raise self._error

    def _run(self) -> None:
        wait = _SHORTEST_WAIT_SECONDS
        try:
            while not self._stop.is_set():
                chunks = self._timed_pull()
                for chunk in chunks:
                    self._insert(chunk)
                if chunks:
                    wait = _SHORTEST_WAIT_SECONDS
                    continue
                started = time.perf_counter()
                self._stop.wait(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
                with self._lock:
                    self._idle_seconds += time.perf_counter() - started
        except Exception as error:  # any error at all, or the learner would wait forever
            if not self._stop.is_set():
                with self._lock:
                    self._error = error
                super().close()  # so that a learner waiting for a batch gets the error

    def _timed_pull(self) -> list[bytes]:
        started = time.perf_counter()
        chunks = self._pull()
        seconds = time.perf_counter() - started
        with self._lock:
            if chunks:
                self._pull_seconds += seconds
            else:
                self._idle_seconds += seconds
            self._chunks += len(chunks)
            self._bytes += sum(map(len, chunks))
        return chunks

    def _insert(self, chunk: bytes) -> None:
        """Inserts a chunk as soon as the rate limiter allows it."""
        try:
            while not self._stop.is_set() and self.insert(chunk, timeout_seconds=_INSERT_SECONDS) is None:
                pass
        except ChunkRefused as error:
            with self._lock:
                self._refused += 1
                hopeless = self._refused >= _REFUSALS and self._refused == self._chunks
            if hopeless:
                raise ChunkRefused(f"not one of {self._refused} chunks that actors sent fits: {error}") from error
