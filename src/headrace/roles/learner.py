"""Turns batches into gradient steps, priorities and published policies."""

from collections.abc import Callable
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Updater
from headrace.clock import monotonic
from headrace.errors import DivergenceError
from headrace.parameters.snapshot import Snapshot, Stamp
from headrace.roles.clock import LEARNER_PHASES, PhaseClock
from headrace.roles.publisher import Publisher
from headrace.types import Array, Batch

__all__ = ["Learner"]

_PROBE_ROWS = 16
"""Rows of the newest batch that are published with the parameters, to measure the error of the resulting policy."""


class Learner:
    """One updater fed by `next_batch`; one thread.

    `next_batch(timeout_seconds)` gives a batch that stays valid until the next call, or None at the deadline.
    `update_priorities(key, priority)` is None with uniform sampling. `publisher` is None if no other process needs the
    policy. The policy's version is the number of updates plus one.
    """

    def __init__(
        self,
        updater: Updater,
        next_batch: Callable[[float], Batch | None],
        update_priorities: Callable[[NDArray[np.uint64], NDArray[np.float32]], object] | None,
        publisher: Publisher | None,
        publish_period: int,
    ) -> None:
        self.clock = PhaseClock(LEARNER_PHASES)
        self.steps = 0
        self.loss = float("nan")
        self.overdue_seconds = 0.0
        """By how much all waits for batches have exceeded their timeouts."""
        self.staleness = self._staleness_sum = 0.0
        self._updater = updater
        self._next_batch = next_batch
        self._update_priorities = update_priorities
        self._publisher = publisher
        self._publish_period = publish_period
        self._probe: Array | None = None

    @property
    def version(self) -> int:
        """The newest published version."""
        return self._publisher.version if self._publisher else self.steps + 1

    @property
    def mean_staleness(self) -> float | None:
        """Mean of `staleness` over all updates."""
        return self._staleness_sum / self.steps if self.steps else None

    def resume(self, steps: int, mean_staleness: float | None) -> None:
        """Continues after so many updates of earlier starts."""
        self.steps, self._staleness_sum = steps, steps * (mean_staleness or 0.0)

    def publish(self) -> None:
        """Publishes the current policy under version steps + 1 and waits until it is published."""
        if self._publisher is not None:
            self.clock.enter("publish")
            self._publisher.publish(self._snapshot(), self.steps + 1)
            self.clock.enter("other")

    def step(self, timeout_seconds: float) -> bool:
        """One update if there is a batch before the deadline; returns whether there was."""
        self.clock.enter("wait")
        due = self.clock.entered + timeout_seconds
        batch = self._next_batch(timeout_seconds)
        self.overdue_seconds += max(0.0, monotonic() - due)
        if batch is None:
            self.clock.enter("other", "poll")
            return False
        self.clock.enter("transfer")
        tensors = self._updater.transfer(batch)
        self.clock.enter("train")
        update = self._updater.update(tensors)
        if not isfinite(update.loss):
            required = "a smaller learning_rate is" if self.steps else "smaller rewards or observations are"
            raise DivergenceError(
                f"training diverged: the loss of update {self.steps + 1} is {update.loss}; {required} required"
            )
        self.loss = float(update.loss)
        self.staleness = float(_behind(self.steps + 1, batch.policy_version).mean())
        self._staleness_sum += self.staleness
        self.steps += 1
        self.clock.enter("priorities")
        if self._update_priorities is not None:  # after the counts: a server that is gone must not undo the update
            self._update_priorities(batch.key, update.priority)
        if self._publisher is not None and self.steps % self._publish_period == 0:
            self.clock.enter("publish")
            self._probe = batch.observation[:_PROBE_ROWS].copy()
            self._publisher.offer(self._snapshot(), self.steps + 1)
        self.clock.enter("other")
        return True

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._updater.weights(), self._probe, Stamp.now())


def _behind(version: int, made_by: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Age in versions [B] of the policies that acted; 0 for a newer one: a checkpoint may be older than its server."""
    return np.maximum(version - made_by.astype(np.int64), 0)
