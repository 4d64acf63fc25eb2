"""Exploration: ladders, the decay, and what epsilon and sigma mean."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from headrace.algorithms.exploration import (
    EpsilonGreedy,
    GaussianNoise,
    epsilon_ladder,
    linear_epsilon,
    sigma_ladder,
)


def test_ladder_of_ape_x() -> None:
    ladder = epsilon_ladder(8, 0.4, 7.0)
    assert ladder[0] == pytest.approx(0.4)
    assert ladder[1] == pytest.approx(0.16)
    assert ladder[7] == pytest.approx(0.4**8)


def test_ladder_of_one_environment_is_its_middle() -> None:
    assert epsilon_ladder(1, 0.4, 7.0) == [pytest.approx(0.4**4.5)]


def test_linear_decay() -> None:
    assert linear_epsilon(0, 100, 0.1) == 1
    assert linear_epsilon(50, 100, 0.1) == pytest.approx(0.55)
    assert linear_epsilon(100, 100, 0.1) == pytest.approx(0.1)
    assert linear_epsilon(10**6, 100, 0.1) == pytest.approx(0.1)


def test_each_environment_has_its_own_epsilon() -> None:
    exploration = EpsilonGreedy([0.0, 1.0], seed=3)
    q = np.array([[0, 1, 0, 0], [0, 1, 0, 0]], np.float32)
    actions = np.array([exploration.choose(q) for _ in range(4000)])
    assert (actions[:, 0] == 1).all()
    counts = np.bincount(actions[:, 1], minlength=4)
    assert chisquare(counts).pvalue > 1e-3


def test_frequency_of_the_greedy_action() -> None:
    exploration = EpsilonGreedy([0.3], seed=4)
    q = np.array([[2, 1, 0]], np.float32)
    actions = np.concatenate([exploration.choose(q) for _ in range(10_000)])
    expected = np.array([0.7 + 0.1, 0.1, 0.1]) * len(actions)
    assert chisquare(np.bincount(actions, minlength=3), expected).pvalue > 1e-3


@pytest.mark.parametrize("kind", [EpsilonGreedy, GaussianNoise])
def test_same_seed_same_actions(kind: type[EpsilonGreedy | GaussianNoise]) -> None:
    output = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    first, second, other = (kind([0.5] * 5, seed=[7, last]) for last in (1, 1, 2))
    actions = [[exploration.choose(output) for _ in range(20)] for exploration in (first, second, other)]
    assert np.array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])


@pytest.mark.parametrize(
    ("count", "corners", "expected"),
    [
        (5, (0.0, 0.2), [0, 0.05, 0.1, 0.15, 0.2]),
        (5, (0.4, 0.0, 0.2), [0.4, 0.2, 0, 0.1, 0.2]),
        (3, (0.3,), [0.3, 0.3, 0.3]),
        (1, (0.0, 0.2), [0.1]),
        (2, (0.0, 0.9, 0.2), [0, 0.2]),
    ],
)
def test_sigma_ladder(count: int, corners: tuple[float, ...], expected: list[float]) -> None:
    assert sigma_ladder(count, corners) == pytest.approx(expected)


def test_noise_is_normal_with_each_environment_s_own_sigma() -> None:
    exploration = GaussianNoise([0.0, 0.05, 0.1], seed=5)
    output = np.array([[0.3, -0.2], [0.1, 0.2], [-0.3, 0]], np.float32)
    noise = np.array([exploration.choose(output) for _ in range(4000)]) - output  # [4000, E, A]
    assert (noise[:, 0] == 0).all()
    for dimension in (0, 1):
        assert kstest(noise[:, 1, dimension], "norm", (0, 0.05)).pvalue > 1e-3
        assert kstest(noise[:, 2, dimension], "norm", (0, 0.1)).pvalue > 1e-3
    assert abs(np.corrcoef(noise[:, 1:].reshape(4000, 4).T) - np.eye(4)).max() < 0.06  # each number is drawn apart


def test_noisy_actions_stay_within_bounds() -> None:
    action = GaussianNoise([100.0] * 50, seed=6).choose(np.zeros((50, 4), np.float32))
    assert action.dtype == np.float32
    assert action.min() == -1
    assert action.max() == 1


def test_a_change_of_scale_takes_effect() -> None:
    """As the serial topology's decay changes it."""
    exploration = GaussianNoise([0.5], seed=8)
    exploration.scale[:] = 0
    output = np.array([[0.25, -0.5]], np.float32)
    assert (exploration.choose(output) == output).all()
