"""What each algorithm answers for itself."""

import numpy as np
import pytest

from headrace import A3C, D4PG, DQN, TD3, DynaQ
from headrace.algorithms.config import OffPolicy
from headrace.algorithms.exploration import EpsilonGreedy, Exploration, GaussianNoise
from headrace.types import EnvironmentSpec

DISCRETE = EnvironmentSpec((3,), "float32", 3)
CONTINUOUS = EnvironmentSpec((3,), "float32", 3, continuous=True)
OUTPUT = np.array([[0.5, -1, 0.7], [0.2, 0.1, 0]], np.float32)


@pytest.mark.parametrize("algorithm", [DQN(), DynaQ(), A3C()])
def test_the_greedy_discrete_action_has_the_largest_output(algorithm: DQN | A3C) -> None:
    assert algorithm.greedy(OUTPUT, DISCRETE).tolist() == [2, 0]


@pytest.mark.parametrize("algorithm", [D4PG(), TD3(), A3C()])
def test_the_greedy_continuous_action_is_the_output(algorithm: D4PG | TD3 | A3C) -> None:
    assert (algorithm.greedy(OUTPUT, CONTINUOUS) == OUTPUT).all()


def test_each_algorithm_has_its_exploration() -> None:
    kinds: dict[OffPolicy, type[Exploration]] = {DQN(): EpsilonGreedy, D4PG(): GaussianNoise, TD3(): GaussianNoise}
    for algorithm, kind in kinds.items():
        exploration = algorithm.make_exploration((0.1, 0.2), 0, DISCRETE)
        assert type(exploration) is kind
        assert exploration.scale.tolist() == [0.1, 0.2]


def test_each_algorithm_learns_from_replay_or_rollouts() -> None:
    dqn, dyna_q, a3c = DQN(), DynaQ(), A3C()
    assert (dqn.replay, dqn.rollouts, dqn.world_model) == (dqn, None, None)
    assert (dyna_q.replay, dyna_q.rollouts, dyna_q.world_model) == (dyna_q, None, dyna_q)
    assert (a3c.replay, a3c.rollouts, a3c.world_model) == (None, a3c, None)
    assert DynaQ(planning=False).world_model is None
