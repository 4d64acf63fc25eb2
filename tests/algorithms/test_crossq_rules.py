"""CrossQ's rules with numbers worked out by hand."""

import numpy as np
import pytest

from headrace._native import Optimizer
from headrace.algorithms.crossq.rules import joint_gradient, renormalization_limits, statistics_options


def test_only_the_first_half_of_a_joint_batch_has_a_gradient() -> None:
    """-w delta / B for B = 2."""
    error, weight = np.array([[1, -2], [3, 0]], np.float32), np.array([1, 0.5], np.float32)
    np.testing.assert_allclose(joint_gradient(error, weight), [[-0.5, 1], [-0.75, 0], [0, 0], [0, 0]])


def test_ranks_are_checked() -> None:
    with pytest.raises(AssertionError):
        joint_gradient(np.zeros(3, np.float32), np.zeros(3, np.float32))


def test_renormalization_starts_after_so_many_updates() -> None:
    assert renormalization_limits(99, 100) == (1, 0)
    assert renormalization_limits(100, 100) == (3, 5)
    assert renormalization_limits(0, 0) == (3, 5)


def test_statistics_become_a_moving_average() -> None:
    """0.9 * 2 + 0.1 * 12 = 3, and then 0.9 * 3 + 0.1 * -7 = 2."""
    statistics = np.array([2], np.float32)
    optimizer = Optimizer(statistics_options(0.9), 1)
    for measured, average in ((12, 3), (-7, 2)):
        optimizer.apply(statistics, statistics - np.float32(measured))
        assert statistics[0] == pytest.approx(average, rel=1e-6)
