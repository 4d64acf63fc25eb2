"""Batches of two tables."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import BatchView, Signature
from headrace.replay.batches import BatchBuffer
from headrace.types import Batch

__all__ = ["MixedBatches", "Sampled"]

_FRESH_BATCHES = 1000
"""Between looks whether anything has been simulated."""


class Sampled(Protocol):
    """A table that batches are drawn from."""

    def sample_into(self, batch: BatchView, importance_exponent: float, timeout_seconds: float | None = None) -> bool:
        """Fills a batch; False at the deadline."""

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> object:
        """Sets priorities [B]."""

    def stats(self) -> dict[str, float]:
        """Counts, "inserts" among them."""


class MixedBatches:
    """Batches of B, of which the first `real_rows` are real and the rest simulated; all real while too few are.

    Batches are all real, too, while nothing newly simulated has come for a thousand batches: what a model that is gated
    by now has left behind is not learnt from again and again. A simulated transition weighs as much as the average real
    one of its batch. `key` and `policy_version` of a batch are those of its real rows alone: priorities and staleness
    are theirs. One consumer thread.
    """

    def __init__(
        self,
        signature: Signature,
        real: Sampled,
        simulated: Sampled,
        batch_size: int,
        real_rows: int,
        importance_exponent: float,
    ) -> None:
        self.simulated = 0
        """Simulated transitions in all batches so far."""
        buffer = BatchBuffer(signature, batch_size)
        self._real = real
        self._simulated = simulated
        self._exponent = importance_exponent
        self._whole = buffer.arrays
        self._whole_view = buffer.view
        self._first = _rows(buffer.arrays, slice(real_rows))
        self._first_view = BatchView(signature, *self._first)
        self._rest = _rows(buffer.arrays, slice(real_rows, None))
        self._rest_view = BatchView(signature, *self._rest)
        self._filled = False  # whether the rest is, and its real rows are not yet
        self._count = self._next_look = 0  # batches
        self._inserts = -1.0  # of simulated transitions, when that was asked last
        self._fresh = True

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None where the real table has none before the deadline."""
        if self._count >= self._next_look:
            self._next_look = self._count + _FRESH_BATCHES
            inserts = self._simulated.stats()["inserts"]
            self._fresh, self._inserts = inserts != self._inserts, inserts
        self._filled = self._filled or (self._fresh and self._simulated.sample_into(self._rest_view, 0.0, 0.0))
        if not self._filled:
            if not self._real.sample_into(self._whole_view, self._exponent, timeout_seconds):
                return None
            self._count += 1
            return self._whole
        if not self._real.sample_into(self._first_view, self._exponent, timeout_seconds):
            return None
        self._filled = False
        self._count += 1
        self.simulated += len(self._rest.key)
        self._rest.weight[:] = self._first.weight.mean()
        return self._whole._replace(key=self._first.key, policy_version=self._first.policy_version)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> object:
        """Sets priorities of a batch's real rows to the first of those [B] that its update gave."""
        return self._real.update_priorities(key, priority[: len(key)])

    def close(self) -> None:
        """Nothing to stop: batches are drawn when they are asked for."""


def _rows(batch: Batch, rows: slice) -> Batch:
    """Some rows of a batch: views."""
    return Batch._make(field[rows] for field in batch)
