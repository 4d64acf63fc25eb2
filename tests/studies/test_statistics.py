"""Means and quantiles, by hand."""

from math import inf, isnan

from headrace.studies.statistics import mean, median, probability_of_more, quantile


def test_of_what_there_is() -> None:
    assert median([3.0, None, float("nan"), 1.0, 2.0]) == 2.0
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0


def test_the_probability_of_more_counts_equality_as_one_half() -> None:
    assert probability_of_more([1, 2], [2, 3]) == (1 + 1 + 0.5 + 1) / 4
    assert probability_of_more([inf], [inf]) == 0.5
    assert isnan(probability_of_more([], [1.0]))


def test_of_nothing() -> None:
    assert isnan(mean([]))
    assert isnan(median([None]))
    assert isnan(quantile([], 0.5))
