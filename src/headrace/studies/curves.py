"""The arithmetic of learning curves."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOW", "Band", "Curve", "bands", "curve_of", "held_at", "places", "running_mean", "smooth"]

WINDOW = 10
_SLIGHTLY = 1e-6


class Curve(NamedTuple):
    """The evaluations of one run, in order: [N] each."""

    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    score: NDArray[np.float64]


class Band(NamedTuple):
    """Mean and standard deviation over seeds, at the grid points that all seeds have reached."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def curve_of(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """The rows of one run's evaluations as a curve."""
    fields = ("environment_steps", "seconds", "mean_return")
    return Curve(*(np.array([row[field] for row in rows], np.float64) for field in fields))


def running_mean(values: Sequence[float] | NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """Running mean over at most `window` values, as in the published curves."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    begins = np.maximum(0, ends - window)
    means: NDArray[np.float64] = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def held_at(curve: Curve, target: float) -> int | None:
    """The first evaluation at or above the target whose successor also is; None if there is none.

    A single evaluation above the target may be luck; the last one has no successor and does not count.
    """
    above = curve.score >= target
    held = np.flatnonzero(above[:-1] & above[1:])
    return int(held[0]) if len(held) else None


def places(curves: Sequence[Curve], axis: str) -> NDArray[np.float64]:
    """A grid for all of these runs on "steps" or "seconds", from the latest first evaluation to the latest end.

    The earliest end is one of its points. The distance between points is the mean one between evaluations, in
    the run where it is largest. Empty if a run begins after another's end.
    """
    axes = [getattr(curve, axis) for curve in curves if len(curve.score)]
    begin = max((float(x[0]) for x in axes), default=0.0)
    ends = [float(x[-1]) for x in axes]
    if not axes or begin > min(ends):
        return np.empty(0)
    spacing = max(float(x[-1] - x[0]) / max(len(x) - 1, 1) for x in axes) or 1.0
    back, ahead = (int((length + _SLIGHTLY) / spacing) for length in (min(ends) - begin, max(ends) - min(ends)))
    return min(ends) + spacing * np.arange(-back, ahead + 1, dtype=np.float64)


def smooth(curve: Curve, axis: str, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running means of the scores on a grid, with linear interpolation between evaluations.

    Evaluations are a fixed number of seconds apart, so a faster run makes more steps between them, and a mean over
    evaluations would cover more of its steps. On a common grid the means of all runs cover the same distance.
    """
    return running_mean(np.interp(grid, getattr(curve, axis), curve.score))


def bands(groups: Mapping[str, Sequence[Curve]], axis: str) -> dict[str, Band]:
    """Each group's mean and spread over seeds on one grid for all groups, up to the earliest end of its seeds."""
    there = {name: [curve for curve in curves if len(curve.score)] for name, curves in groups.items()}
    ends = {name: min(getattr(curve, axis)[-1] for curve in curves) for name, curves in there.items() if curves}
    grid = places([curve for curves in there.values() for curve in curves], axis)
    found = {}
    for name, end in ends.items():
        x = grid[grid <= end]
        if len(x):
            values = np.stack([smooth(curve, axis, x) for curve in there[name]])
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(len(x))
            found[name] = Band(x, values.mean(0), spread)
    return found
