"""R2D2's rules against numbers worked out by hand."""

import numpy as np
import pytest

from headrace.algorithms.r2d2.rules import n_step_returns, rescale, unscale, window_priority


def test_rescaling() -> None:
    """sqrt(4) - 1 + 0.003, and the same with the other sign; sqrt(100) - 1 + 0.099."""
    np.testing.assert_allclose(rescale(np.float32([0, 3, -3, 99])), [0, 1.003, -1.003, 9.099], rtol=1e-6)


def test_unscaling_is_the_inverse() -> None:
    x = np.float32([*np.linspace(-2, 2, 41), *np.logspace(-3, 5, 50), *-np.logspace(-3, 5, 50)])
    np.testing.assert_allclose(unscale(rescale(x)), x, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(unscale(np.float32([1.003, -9.099])), [3, -99], rtol=1e-5)


def test_returns_of_windows_that_go_on_that_end_and_that_are_cut() -> None:
    """L = 3 and n = 2, gamma = 0.5: four rewards. One has all steps; others end after 4, 2 and 1."""
    reward = np.float32([[1, 2, 4, 8]] * 5)
    steps = np.array([4, 4, 2, 2, 1])
    terminated = np.array([False, True, True, False, True])
    returns = n_step_returns(reward, steps, terminated, 2, 0.5)
    np.testing.assert_array_equal(returns.reward[:2], [[2, 4, 8]] * 2)
    np.testing.assert_array_equal(returns.bootstrap[:2], [[2, 3, 4]] * 2)
    np.testing.assert_array_equal(returns.discount[:2], [[0.25, 0.25, 0.25], [0.25, 0.25, 0]])
    np.testing.assert_array_equal(returns.reward[2:, :2], [[2, 2], [2, 2], [1, 0]])
    np.testing.assert_array_equal(returns.bootstrap[2:, :2], [[2, 2], [2, 2], [1, 1]])
    np.testing.assert_array_equal(returns.discount[2:, 0], [0, 0.25, 0])
    np.testing.assert_array_equal(returns.discount[2:4, 1], [0, 0.5])
    expected = [[True] * 3, [True] * 3, [True, True, False], [True, True, False], [True, False, False]]
    np.testing.assert_array_equal(returns.learned, expected)


def test_priority_mixes_the_largest_and_the_mean_of_learned_steps() -> None:
    error = np.float32([[1, -3, 2], [4, 9, 9]])
    learned = np.array([[True, True, True], [True, False, False]])
    assert window_priority(error, learned, 0.9).tolist() == pytest.approx([0.9 * 3 + 0.1 * 2, 4])
    assert window_priority(error, learned, 0.0).tolist() == pytest.approx([2, 4])


def test_ranks_are_asserted() -> None:
    with pytest.raises(AssertionError, match="rank"):
        n_step_returns(np.zeros((2, 3), np.float32), np.ones((2, 1), np.int64), np.zeros(2, np.bool_), 1, 0.9)
