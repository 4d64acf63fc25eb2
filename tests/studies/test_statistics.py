"""Means and quantiles, by hand."""

from math import isnan

from headrace.studies.statistics import mean, median, quantile


def test_of_what_there_is() -> None:
    assert median([3.0, None, float("nan"), 1.0, 2.0]) == 2.0
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0


def test_of_nothing() -> None:
    assert isnan(mean([]))
    assert isnan(median([None]))
    assert isnan(quantile([], 0.5))
