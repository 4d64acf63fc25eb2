"""Greedy episodes: how many of each environment, and where they end."""

from collections import Counter

import numpy as np
import pytest

from headrace.roles import evaluator
from headrace.roles.evaluator import play


def right(observation: np.ndarray) -> np.ndarray:
    """Q values that prefer action 1."""
    return np.tile(np.array([0, 1], np.float32), (len(observation), 1))


def left(observation: np.ndarray) -> np.ndarray:
    return -right(observation)


@pytest.mark.parametrize("episodes", [1, 3, 20, 47])
def test_plays_so_many_episodes(episodes: int) -> None:
    score = play("headrace.environments.toy:Corridor", right, episodes, seed=0)
    assert score.returns == [1.0] * episodes
    assert score.lengths == [7] * episodes


def test_same_seed_same_episodes_and_another_seed_others() -> None:
    first, second, other = (play("CartPole-v1", left, 30, seed) for seed in (1, 1, 2))
    assert first == second
    assert Counter(first.lengths) != Counter(other.lengths)


def test_an_episode_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "LONGEST_EPISODE", 12)
    score = play("headrace.environments.toy:Corridor", left, 4, seed=0)
    assert score.lengths == [12] * 4
    assert score.returns == [0.0] * 4


def test_beats_at_least_once_for_every_step() -> None:
    beats = []
    score = play("headrace.environments.toy:Corridor", right, 5, seed=0, beat=lambda: beats.append(1))
    assert len(beats) >= sum(score.lengths)


def test_values_that_are_not_finite_are_a_fault() -> None:
    from headrace.errors import EnvironmentFault

    with pytest.raises(EnvironmentFault, match="step 7: observation"):
        play("headrace.environments.toy:NanObservation", left, 2, seed=0)
