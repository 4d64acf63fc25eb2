"""The contract of every replay backend."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace.replay.batches import BatchBuffer
from headrace.types import Batch

__all__ = ["Replay"]


class Replay(Protocol):
    """Experience in, batches out, priorities back. Every method may be called from any thread."""

    @property
    def signature(self) -> Signature:
        """Layout of one step."""

    def insert(self, chunk: bytes, timeout_seconds: float | None = None) -> int | None:
        """Stores a chunk; returns the key of its first transition, or None if blocked until the deadline."""

    def sample(
        self, batch_size: int, importance_exponent: float = 0.4, timeout_seconds: float | None = None
    ) -> Batch | None:
        """B transitions in new arrays, or None at the deadline."""

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> int:
        """Sets priorities [B]; those of overwritten transitions are dropped. Returns how many were applied."""
