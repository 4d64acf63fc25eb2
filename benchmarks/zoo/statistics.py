"""Statistics of the runs by rliable (Agarwal et al. 2021): interquartile means, intervals, profiles.

rliable resamples with NumPy's global generator; it is seeded here, so that the same rows give the same numbers.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rliable import library
from scipy.stats import trim_mean

from headrace.types import Array

__all__ = [
    "LEAST_SEEDS",
    "Estimate",
    "profiles",
    "seed_estimates",
]

_REPEATS = 2_000
_SEED = 0
LEAST_SEEDS = 10
"""Seeds for an interval: of fewer, the bootstrap's is too narrow."""


class Estimate(NamedTuple):
    """A figure and its 95 % stratified bootstrap interval; of few seeds, the lowest and the highest value."""

    value: float
    low: float
    high: float


def seed_estimates(values: Mapping[tuple[str, str], Sequence[float]]) -> dict[tuple[str, str], Estimate]:
    """Of the seeds of each key: interquartile means and intervals, or below ten seeds medians and ranges.

    Keys with equally many seeds are resampled by the same draws, so that no estimate depends on other keys.
    """
    found: dict[tuple[str, str], Estimate] = {}
    for count in sorted({len(each) for each in values.values()}):
        names = [name for name, each in values.items() if len(each) == count]
        if count < LEAST_SEEDS:
            ranges = {name: (min(values[name]), max(values[name])) for name in names}
            found |= {name: Estimate(float(np.median(values[name])), *ranges[name]) for name in names}
            continue
        scores = np.array([values[name] for name in names]).T
        np.random.seed(_SEED)  # noqa: NPY002  # the generator that rliable draws from
        means = functools.partial(_trimmed_means, scores)
        points, bounds = library.get_interval_estimates({"": np.arange(count)[:, None]}, means, reps=_REPEATS)
        columns = zip(names, points[""], bounds[""][0], bounds[""][1], strict=True)
        found |= {name: Estimate(*map(float, estimate)) for name, *estimate in columns}
    return found


def _trimmed_means(scores: Array, seeds: Array) -> Array:
    """Interquartile means, as rliable defines them, of scores [seeds, columns] over drawn seeds [n, 1]."""
    means: Array = trim_mean(scores[seeds[:, 0]], 0.25, axis=0)
    return means


def profiles(scores: Mapping[str, Array], thresholds: Array) -> dict[str, tuple[Array, Array | None]]:
    """Performance profiles of scores [seeds, tasks] by name: the share of runs at or above each threshold.

    With its interval [2, thresholds], from ten seeds on.
    """
    below = np.nextafter(thresholds, -np.inf)  # rliable counts the runs above a threshold
    found: dict[str, tuple[Array, Array | None]] = {}
    for name, values in scores.items():
        np.random.seed(_SEED)  # noqa: NPY002
        shares, bounds = library.create_performance_profile({name: values}, below, reps=_REPEATS)
        found[name] = shares[name], bounds[name] if len(values) >= LEAST_SEEDS else None
    return found
