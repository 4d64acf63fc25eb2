"""Rows selected by their cells; means and quantiles of the known values, nan if there are none."""

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import Any

import numpy as np

from headrace.studies.sheet import Rows

__all__ = ["chosen", "distinct", "grouped", "known", "mean", "median", "middle", "probability_of_more", "quantile"]


def mean(values: Sequence[float]) -> float:
    """The mean; nan if there are no values."""
    return float(np.mean(values)) if len(values) else nan


def median(values: Iterable[float | None]) -> float:
    """The median of the known values; nan if there are none."""
    there = [value for value in values if value is not None and not isnan(value)]
    return float(np.median(there)) if there else nan


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; nan if there are none."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else nan


def probability_of_more(over: Sequence[float], values: Sequence[float]) -> float:
    """Probability that one of the values exceeds one of `over`, equality counted as one half; nan if either has none.

    0.5 if both have the same distribution. It is the statistic of Mann and Whitney (1947), as a share of all pairs.
    """
    pairs = [(one, other) for one in over for other in values]
    return sum((other > one) + 0.5 * (other == one) for one, other in pairs) / len(pairs) if pairs else nan


def chosen(rows: Rows, **cells: Any) -> Rows:
    """The rows with these values in these columns."""
    return [row for row in rows if all(row[column] == value for column, value in cells.items())]


def distinct(rows: Rows, *columns: str) -> list[Any]:
    """The distinct values of these columns in row order: tuples, or plain values for one column."""
    keys = (row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns) for row in rows)
    return list(dict.fromkeys(keys))


def grouped(rows: Rows, *columns: str) -> list[tuple[Any, Rows]]:
    """The distinct values of these columns, as distinct() returns them, each with its rows."""
    return [
        (key, chosen(rows, **dict(zip(columns, (key,) if len(columns) == 1 else key, strict=True))))
        for key in distinct(rows, *columns)
    ]


def known(rows: Rows, column: str) -> list[Any]:
    """The column's cells that are not empty."""
    return [row[column] for row in rows if row[column] is not None]


def middle(rows: Rows, column: str) -> float:
    """The median of a column over the rows that have a value; nan if there is none."""
    return median(row[column] for row in rows)
