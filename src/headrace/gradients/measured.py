"""Counts and times a worker's gradients."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypedDict, TypeVar, cast

from headrace.clock import monotonic, spend
from headrace.gradients.base import Applied, ParameterVector
from headrace.types import Array, FlatVector

__all__ = ["STALENESS", "GradientTotals", "MeasuredVector", "joint_totals"]

T = TypeVar("T")

_EDGES = (0, 1, 2, 3, 4, 8, 16, 32)
STALENESS = ("0", "1", "2", "3", "4-7", "8-15", "16-31", "32+")
"""Buckets of staleness in which gradients are counted."""


class GradientTotals(TypedDict):
    """A worker's gradients since its process started, as JSON."""

    version: int
    """Version after the last gradient."""
    staleness: dict[str, int]
    """Gradients in each bucket of STALENESS."""
    staleness_sum: int
    accepted: int
    dropped: int
    refused: int
    lock_wait_seconds: float
    pull_seconds: float
    apply_seconds: float


class MeasuredVector:
    """Wraps another vector and counts and times its calls; implements `ParameterVector`.

    `lock_wait_seconds` returns how long the vector's worker has waited for locks, in this process and earlier ones.
    `lock` is that of a simulated run, which has the place of the native one.
    """

    def __init__(
        self,
        vector: ParameterVector,
        lock_wait_seconds: Callable[[], float] = lambda: 0.0,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._vector = vector
        self._lock = lock
        self._locked_seconds = 0.0
        self._lock_wait_seconds = lock_wait_seconds
        self._waited_before = lock_wait_seconds()
        self._staleness = dict.fromkeys(STALENESS, 0)
        self._staleness_sum = 0
        self._accepted = self._dropped = self._refused = 0
        self._pull_seconds = self._apply_seconds = 0.0
        self._last_version = vector.version

    @property
    def parameters(self) -> FlatVector:
        """[P]."""
        return self._vector.parameters

    @property
    def gradient(self) -> FlatVector:
        """[P]."""
        return self._vector.gradient

    @property
    def version(self) -> int:
        """Version of `parameters`."""
        return self._vector.version

    @property
    def parameter_sets(self) -> int:
        """Those of the wrapped vector."""
        return self._vector.parameter_sets

    def pull(self) -> int:
        """Updates the parameters; timed."""
        begin = monotonic()
        version = self._exclusively(self._vector.pull)
        self._pull_seconds += monotonic() - begin
        return version

    def apply(self) -> Applied:
        """Applies the gradient; timed, and counted unless it is only summed."""
        spend("gradient")
        begin = monotonic()
        applied = self._exclusively(self._vector.apply)
        self._apply_seconds += monotonic() - begin
        self._last_version = applied.version
        if applied.staleness is None:
            return applied
        if applied.staleness >= 0:
            bucket = sum(edge <= applied.staleness for edge in _EDGES) - 1
            self._staleness[STALENESS[bucket]] += 1
            self._staleness_sum += applied.staleness
        if applied.accepted:
            self._accepted += 1
        elif applied.staleness >= 0:
            self._dropped += 1
        else:
            self._refused += 1
        return applied

    def state(self) -> dict[str, Array]:
        """The vector's state."""
        return self._vector.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned."""
        self._vector.load(state)

    def close(self) -> None:
        """Closes the vector's connections."""
        self._vector.close()

    def totals(self) -> GradientTotals:
        """Totals since the creation of this object."""
        return {
            "version": self._last_version,
            "staleness": dict(self._staleness),
            "staleness_sum": self._staleness_sum,
            "accepted": self._accepted,
            "dropped": self._dropped,
            "refused": self._refused,
            "lock_wait_seconds": self._lock_wait_seconds() - self._waited_before + self._locked_seconds,
            "pull_seconds": self._pull_seconds,
            "apply_seconds": self._apply_seconds,
        }

    def _exclusively(self, call: Callable[[], T]) -> T:
        """Calls with the simulated lock, if there is one."""
        if self._lock is None:
            return call()
        begin = monotonic()
        with self._lock:
            self._locked_seconds += monotonic() - begin
            return call()


def joint_totals(vectors: Sequence[MeasuredVector]) -> GradientTotals:
    """The sums of the vectors' totals, and the version of the first vector."""
    first, *others = [cast(dict[str, Any], vector.totals()) for vector in vectors]
    for totals in others:
        for name, value in totals.items():
            if name == "staleness":
                first[name] = {bucket: count + value[bucket] for bucket, count in first[name].items()}
            elif name != "version":
                first[name] += value
    return cast(GradientTotals, first)
