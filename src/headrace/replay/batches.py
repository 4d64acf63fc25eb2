"""Memory for batches, and batches that are prepared before they are requested."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import BatchAhead, BatchStream, BatchView, Signature
from headrace._native import Table as NativeTable
from headrace.errors import require
from headrace.types import Array, Batch

__all__ = ["Allocate", "BatchBuffer", "Batches", "BatchesAhead", "StreamedBatches"]

Allocate = Callable[[tuple[int, ...], str], Array]


class BatchBuffer:
    """The arrays of one batch of B transitions, allocated once; samples are written to `arrays`.

    `allocate(shape, dtype)` may return pinned memory; None uses NumPy's allocator.
    """

    def __init__(self, signature: Signature, batch_size: int, allocate: Allocate | None = None) -> None:
        require("batch_size", batch_size, batch_size > 0, "above 0")
        new = allocate or np.empty
        stack = () if signature.stack == 1 else (signature.stack,)
        observation = (batch_size, *stack, *signature.observation_shape)
        self.arrays = Batch(
            observation=new(observation, signature.observation_dtype),
            next_observation=new(observation, signature.observation_dtype),
            action=new((batch_size, *signature.action_shape), signature.action_dtype),
            reward=new((batch_size,), "float32"),
            discount=new((batch_size,), "float32"),
            weight=new((batch_size,), "float32"),
            probability=new((batch_size,), "float32"),
            key=np.empty(batch_size, np.uint64),
            policy_version=np.empty(batch_size, np.uint64),
        )
        self.view = BatchView(signature, *self.arrays)


class Batches(Protocol):
    """Batches for one consumer thread."""

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None at the deadline."""

    def close(self) -> None:
        """Stops preparing batches."""


class BatchesAhead:
    """A native thread that keeps `count` batches ready in reused buffers; implements `Batches`."""

    def __init__(
        self,
        table: NativeTable,
        batch_size: int,
        importance_exponent: float,
        count: int,
        allocate: Allocate | None = None,
    ) -> None:
        self._buffers = [BatchBuffer(table.signature, batch_size, allocate) for _ in range(count)]
        self._ahead = BatchAhead(table, [buffer.view for buffer in self._buffers], importance_exponent)
        self._taken: int | None = None

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None at the deadline."""
        taken, self._taken = self._taken, None  # Ctrl-C may end the wait below: no buffer is given back twice
        if taken is not None:
            self._ahead.release(taken)
        self._taken = self._ahead.next(timeout_seconds)
        return None if self._taken is None else self._buffers[self._taken].arrays

    def close(self) -> None:
        """Stops the thread."""
        self._ahead.close()


class StreamedBatches:
    """Batches that a server keeps in flight; the arrays are read-only. Implements `Batches`."""

    def __init__(self, open_stream: Callable[[], BatchStream]) -> None:
        self._open = open_stream
        self._stream = open_stream()
        self.closed = False
        """Whether close() was called."""

    @property
    def shared(self) -> bool:
        """Whether they are in memory shared with the server."""
        return self._stream.shared

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None at the deadline."""
        arrays = self._stream.next(timeout_seconds)
        return None if arrays is None else Batch(*arrays)

    def post_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> None:
        """Sets priorities to |priority| [B]; they are sent after the next next()."""
        self._stream.post_priorities(key, np.asarray(priority, np.float32))

    def renew(self) -> None:
        """Opens a new stream: the old one ended when the server had no table for it."""
        self._stream.close()
        self._stream = self._open()

    def close(self) -> None:
        """Closes the connection; next() raises ClosedError after the batches that had arrived."""
        self.closed = True
        self._stream.close()
