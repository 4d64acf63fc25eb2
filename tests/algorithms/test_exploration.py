"""Exploration: the ladder, the decay, and what epsilon means."""

import numpy as np
import pytest
from scipy.stats import chisquare

from headrace.algorithms.dqn.exploration import EpsilonGreedy, epsilon_ladder, linear_epsilon


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


def test_same_seed_same_actions() -> None:
    q = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    first, second = (EpsilonGreedy([0.5] * 5, seed=[7, 1]) for _ in range(2))
    for _ in range(20):
        assert (first.choose(q) == second.choose(q)).all()
