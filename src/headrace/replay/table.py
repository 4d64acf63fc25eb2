"""A table in this process."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace._native import Table as NativeTable
from headrace.replay.batches import BatchBuffer
from headrace.replay.writer import Writer
from headrace.types import Batch

__all__ = ["Table"]


class Table:
    """Experience with prioritized or uniform sampling; implements `Replay`.

    Sampling is stratified over priority ** priority_exponent (Schaul et al. 2016) and seeded: the same seed and calls
    give the same samples. `capacity` counts transitions; `capacity_bytes` limits the memory (0: as much as the capacity
    requires); the oldest transitions are removed first. `samples_per_insert` above 0 blocks the side that is ahead.
    `path` stores the experience in a memory-mapped file, from which the next table with this path loads it. Raises
    ConfigError.
    """

    def __init__(
        self,
        signature: Signature,
        *,
        capacity: int = 1_000_000,
        capacity_bytes: int = 0,
        sampler: str = "prioritized",
        priority_exponent: float = 0.6,
        samples_per_insert: float = 0.0,
        min_size: int = 1,
        seed: int = 0,
        path: str | Path = "",
    ) -> None:
        self.native = NativeTable(
            signature,
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            sampler=sampler,
            priority_exponent=priority_exponent,
            samples_per_insert=samples_per_insert,
            min_size=min_size,
            seed=seed,
            path=str(path),
        )

    @property
    def signature(self) -> Signature:
        """Layout of one step."""
        return self.native.signature

    def __len__(self) -> int:
        """Number of stored transitions."""
        return self.native.size

    def writer(self, *, n_step: int = 1, discount: float = 0.99, chunk_steps: int = 50, actor: int = 0) -> Writer:
        """A writer for one environment."""
        return Writer(self, n_step=n_step, discount=discount, chunk_steps=chunk_steps, actor=actor)

    def insert(self, chunk: bytes, timeout_seconds: float | None = None) -> int | None:
        """Stores a chunk; see `Replay`."""
        return self.native.insert(chunk, timeout_seconds)

    def sample(
        self, batch_size: int, importance_exponent: float = 0.4, timeout_seconds: float | None = None
    ) -> Batch | None:
        """B transitions in new arrays; see `Replay`."""
        buffer = BatchBuffer(self.signature, batch_size)
        return buffer.arrays if self.sample_into(buffer, importance_exponent, timeout_seconds) else None

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """B transitions into reused arrays; see `Replay`."""
        return self.native.sample_into(buffer.view, importance_exponent, timeout_seconds)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int:
        """Sets priorities to |priority| [B], so TD errors may be signed; see `Replay`."""
        return self.native.update_priorities(key, np.abs(priority, dtype=np.float32))

    def save(self, path: str | Path) -> None:
        """Writes a snapshot: experience, priorities, counters, random state."""
        self.native.save(str(path))

    def restore(self, path: str | Path) -> None:
        """Loads a snapshot into an empty table of the same signature and capacity; raises CorruptFile."""
        self.native.restore(str(path))

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert, seconds that each side was blocked."""
        return self.native.stats()

    def close(self) -> None:
        """Wakes all waiting callers; later calls raise ClosedError."""
        self.native.close()
