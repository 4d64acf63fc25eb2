"""Rows chosen by their cells; means and quantiles of what there is, nan of nothing."""

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import Any

import numpy as np

from headrace.studies.sheet import Rows

__all__ = ["chosen", "distinct", "known", "mean", "median", "middle", "quantile"]


def mean(values: Sequence[float]) -> float:
    """The mean; nan of none."""
    return float(np.mean(values)) if len(values) else nan


def median(values: Iterable[float | None]) -> float:
    """The median of those that there are; nan of none."""
    there = [value for value in values if value is not None and not isnan(value)]
    return float(np.median(there)) if there else nan


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; nan of none."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else nan


def chosen(rows: Rows, **cells: Any) -> Rows:
    """The rows with these cells."""
    return [row for row in rows if all(row[column] == value for column, value in cells.items())]


def distinct(rows: Rows, *columns: str) -> list[Any]:
    """What these columns hold, each once, in the rows' order: tuples, or values where it is one column."""
    keys = (row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns) for row in rows)
    return list(dict.fromkeys(keys))


def known(rows: Rows, column: str) -> list[Any]:
    """The column's cells that are not empty."""
    return [row[column] for row in rows if row[column] is not None]


def middle(rows: Rows, column: str) -> float:
    """A column's median over those rows that have it; nan where none does."""
    return median(row[column] for row in rows)
