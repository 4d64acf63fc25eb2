"""Means and quantiles of what there is, nan of nothing."""

from collections.abc import Sequence
from math import isnan, nan

import numpy as np

__all__ = ["mean", "median", "quantile"]


def mean(values: Sequence[float]) -> float:
    """The mean; nan of none."""
    return float(np.mean(values)) if len(values) else nan


def median(values: Sequence[float | None]) -> float:
    """The median of those that there are; nan of none."""
    there = [value for value in values if value is not None and not isnan(value)]
    return float(np.median(there)) if there else nan


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; nan of none."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else nan
