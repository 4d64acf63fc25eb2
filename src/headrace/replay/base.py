"""The contract of every table, and what the training process does with a run's experience."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace.replay.batches import Allocate, BatchBuffer, Batches
from headrace.replay.writer import Writer
from headrace.types import Batch

__all__ = ["Experience", "ReplayTable"]


class Experience:
    """A run's experience as the training process sees it, wherever it is stored.

    The defaults are those of an algorithm that learns from each step once and stores none.
    """

    worked_on = 0.0
    """Seconds that processes went on, on average, after the last set_paused(True), which are training all the same."""

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert."""
        return {"samples_per_insert": 1.0, "size": 0, "capacity": 0, "used_bytes": 0}

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes the processes that gather experience."""

    def save(self, path: str | Path) -> None:
        """Writes a snapshot of what this process stores."""

    def restore(self, path: str | Path) -> None:
        """Loads a snapshot into empty tables."""

    def close(self) -> None:
        """Ends the processes that gather experience."""


class ReplayTable(Experience, ABC):
    """Experience in, batches out, priorities back. Every method may be called from any thread."""

    signature: Signature
    """Layout of one step."""

    @abstractmethod
    def insert(self, *chunks: bytes | bytearray) -> int | None:
        """Stores chunks in order, waiting while the rate limiter blocks inserts.

        Returns the key of the first transition of the last chunk.
        """

    @abstractmethod
    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""

    @abstractmethod
    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> Batches:
        """Keeps `count` batches of B transitions ready; `allocate` as in BatchBuffer, if this process fills them."""

    @abstractmethod
    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int | None:
        """Sets priorities to |priority| [B], so TD errors may be signed; those of overwritten transitions are dropped.

        Returns how many were applied, or None if the server's answer is not awaited.
        """

    @abstractmethod
    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert, seconds that each side was blocked."""

    @abstractmethod
    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Writes a snapshot; a table on a server raises ReplayError."""

    @abstractmethod
    def restore(self, path: str | Path) -> None:
        """Loads a snapshot into an empty table; a table on a server raises ReplayError."""

    @abstractmethod
    def close(self) -> None:
        """Releases waiting callers; later inserts raise ClosedError."""

    def sample(
        self, batch_size: int, importance_exponent: float = 0.4, timeout_seconds: float | None = None
    ) -> Batch | None:
        """B transitions in new arrays, or None at the deadline."""
        buffer = BatchBuffer(self.signature, batch_size)
        return buffer.arrays if self.sample_into(buffer, importance_exponent, timeout_seconds) else None

    def writer(self, *, n_step: int = 1, discount: float = 0.99, chunk_steps: int = 50, actor: int = 0) -> Writer:
        """A writer for one environment."""
        return Writer(self, n_step=n_step, discount=discount, chunk_steps=chunk_steps, actor=actor)
