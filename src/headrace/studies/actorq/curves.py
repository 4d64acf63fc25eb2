"""The arithmetic of learning curves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOW", "Band", "Curve", "band", "held_at", "running_mean", "value_at"]

WINDOW = 10
_POINTS = 60


class Curve(NamedTuple):
    """The evaluations of one run, in order: [N] each."""

    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    score: NDArray[np.float64]


class Band(NamedTuple):
    """Mean and standard deviation over seeds, on places that all seeds have reached."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def running_mean(values: Sequence[float] | NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """Each value's mean with those before it, `window` of them at most: as the published curves are smoothed."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    begins = np.maximum(0, ends - window)
    means: NDArray[np.float64] = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def held_at(curve: Curve, target: float) -> int | None:
    """The first evaluation at or above the target whose successor is, too; None where there is none.

    One that is alone above it may be luck; the last evaluation has no successor and does not count.
    """
    above = curve.score >= target
    held = np.flatnonzero(above[:-1] & above[1:])
    return int(held[0]) if len(held) else None


def band(curves: Sequence[Curve], axis: str) -> Band:
    """Running means of all seeds on a common axis, "steps" or "seconds", where all of them have been."""
    smooth = [(getattr(curve, axis), running_mean(curve.score)) for curve in curves if len(curve.score)]
    if not smooth:
        empty = np.empty(0)
        return Band(empty, empty, empty)
    begin = max(float(x[0]) for x, _ in smooth)
    end = min(float(x[-1]) for x, _ in smooth)
    grid = np.linspace(begin, end, _POINTS) if end > begin else np.array([end])
    values = np.stack([np.interp(grid, x, y) for x, y in smooth])
    spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(len(grid))
    return Band(grid, values.mean(0), spread)


def value_at(curve: Curve, steps: float) -> float:
    """The running mean at so many environment steps, between evaluations in a straight line."""
    return float(np.interp(steps, curve.steps, running_mean(curve.score)))
