"""Flat vectors of both kinds: copies in and out, and clipping."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from headrace.gradients.flat import clip_norm, read_vector, write_vector
from headrace.types import FlatVector

Make = Callable[[list[float]], FlatVector]
BOTH = pytest.mark.parametrize(
    "make", [lambda values: np.array(values, np.float32), torch.tensor], ids=["array", "tensor"]
)


@BOTH
def test_values_are_copied_out_and_in(make: Make) -> None:
    vector = make([1.0, 2.0])
    copy = read_vector(vector)
    write_vector(vector, np.array([3, 4], np.float32))
    assert isinstance(copy, np.ndarray)
    assert copy.tolist() == [1, 2]
    assert vector.tolist() == [3, 4]


@BOTH
@pytest.mark.parametrize(
    ("largest", "clipped"), [(10.0, [3.0, 4.0]), (5.0, [3.0, 4.0]), (1.0, [0.6, 0.8]), (0.0, [3.0, 4.0])]
)
def test_a_norm_above_the_limit_is_scaled_to_it(make: Make, largest: float, clipped: list[float]) -> None:
    gradient = make([3.0, 4.0])
    clip_norm(gradient, largest)
    assert gradient.tolist() == pytest.approx(clipped, rel=1e-6)


@BOTH
def test_a_gradient_of_zeros_stays(make: Make) -> None:
    gradient = make([0.0, 0.0])
    clip_norm(gradient, 1.0)
    assert gradient.tolist() == [0, 0]


@BOTH
@pytest.mark.parametrize("value", [1e30, float("inf"), float("nan")])
@np.errstate(over="ignore", invalid="ignore")
def test_a_norm_that_is_not_finite_does_not_vanish(make: Make, value: float) -> None:
    """The square of 1e30 overflows: clipped by an infinite norm, this gradient would be 0."""
    gradient = make([value, 1.0])
    clip_norm(gradient, 10.0)
    assert np.isnan(read_vector(gradient)).all()
