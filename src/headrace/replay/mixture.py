"""Batches sampled on request: from one table, or mixed from two."""

import numpy as np
from numpy.typing import NDArray

from headrace.replay.base import ReplayTable
from headrace.replay.batches import Allocate, BatchBuffer
from headrace.types import Array, Batch

__all__ = ["MixedBatches", "SampledBatches"]

_FRESH_BATCHES = 1000
"""Interval, in batches, of checks for new simulated transitions."""
_STALE_BATCHES = 50
"""The same while none arrive."""
_GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples are spread evenly over 0 to 1, however many there are."""


class SampledBatches:
    """Batches of B transitions of a table, sampled in the requesting thread; implements `Batches`."""

    def __init__(
        self, table: ReplayTable, batch_size: int, importance_exponent: float, allocate: Allocate | None = None
    ) -> None:
        self._table = table
        self._buffer = BatchBuffer(table.signature, batch_size, allocate)
        self._exponent = importance_exponent

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None at the deadline."""
        return self._buffer.arrays if self._table.sample_into(self._buffer, self._exponent, timeout_seconds) else None

    def close(self) -> None:
        """No effect: nothing runs between two calls."""


class MixedBatches:
    """Batches of B of which the first `real_rows` are real and the rest simulated; all real while too few are.

    Each batch is drawn as B real transitions, some of which are then replaced by simulated ones. The real table's
    limiter counts the whole batch, so the replay ratio does not depend on the mixture. The draw is stratified, so the
    remaining real rows are spread evenly over it.

    Batches are also all real if no new simulated transition has arrived for a thousand batches, until some arrive, so
    that what a gated model left behind is not learned repeatedly. A simulated transition's weight is the mean weight of
    the real ones in its batch. `key` and `policy_version` of a batch cover only its real rows, as priorities and
    staleness do. Implements `Batches`.
    """

    def __init__(
        self,
        real: ReplayTable,
        simulated: ReplayTable,
        batch_size: int,
        real_rows: int,
        importance_exponent: float,
    ) -> None:
        self.simulated = 0
        """Number of simulated transitions in all batches so far."""
        self._real = real
        self._simulated = simulated
        self._exponent = importance_exponent
        self._real_rows = real_rows
        self._buffer = BatchBuffer(real.signature, batch_size)
        self._simulated_buffer = BatchBuffer(simulated.signature, batch_size - real_rows)
        self._count = self._next_look = 0  # batches
        self._inserts = -1.0  # of simulated transitions, at the last check
        self._fresh = True

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None if the real table has none before the deadline."""
        if not self._real.sample_into(self._buffer, self._exponent, timeout_seconds):
            return None
        if self._count >= self._next_look:
            inserts = self._simulated.stats()["inserts"]
            self._fresh, self._inserts = inserts != self._inserts, inserts
            self._next_look = self._count + (_FRESH_BATCHES if self._fresh else _STALE_BATCHES)
        self._count += 1
        if not (self._fresh and self._simulated.sample_into(self._simulated_buffer, 0.0, 0.0)):
            return self._buffer.arrays
        return self._mix()

    def _mix(self) -> Batch:
        """Combines both buffers: the remaining real rows, then the simulated ones."""
        whole, simulated, count = self._buffer.arrays, self._simulated_buffer.arrays, self._real_rows
        self.simulated += len(simulated.key)
        rows = _spread(count, len(whole.key), self._count * _GOLDEN % 1)
        fields: tuple[Array, ...] = whole
        others: tuple[Array, ...] = simulated
        for field, rest in zip(fields, others, strict=True):
            field[:count] = field[rows]
            field[count:] = rest
        whole.weight[count:] = whole.weight[:count].mean()
        return whole._replace(key=whole.key[:count], policy_version=whole.policy_version[:count])

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> object:
        """Sets priorities of a batch's real rows, the first of those [B] that its update returned."""
        return self._real.update_priorities(key, priority[: len(key)])

    def close(self) -> None:
        """No effect: batches are sampled on request."""


def _spread(count: int, size: int, offset: float) -> NDArray[np.int64]:
    """Selects `count` of `size` rows, evenly; each equally often if offsets are spread evenly over 0 to 1."""
    rows: NDArray[np.int64] = ((np.arange(count) + offset) * (size / count)).astype(np.int64)
    return rows
