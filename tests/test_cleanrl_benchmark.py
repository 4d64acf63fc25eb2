"""The DQN that the zoo has in place of CleanRL's."""

import numpy as np
import pytest
import torch
from benchmarks import cleanrl_dqn
from benchmarks.outcome import Rule
from benchmarks.zoo.published import CLEANRL

SETTINGS = CLEANRL["dqn"]["CartPole-v1"]


def learner(**changes: float) -> cleanrl_dqn._Learner:
    return cleanrl_dqn._Learner(2, 2, SETTINGS | {"learning_rate": 0.01} | changes, np.random.default_rng(0))


def transition(reward: float, terminated: bool) -> cleanrl_dqn._Transition:
    here = np.array([1.0, 0.0], np.float32)
    return cleanrl_dqn._Transition(here, 1, reward, here, terminated)


@pytest.mark.parametrize(("terminated", "value"), [(True, 3.0), (False, 6.0)])
def test_values_are_discounted_returns(terminated: bool, value: float) -> None:
    """3 at an episode's end; without an end 3 / (1 - 0.5), when the target network has been copied often enough."""
    learns = learner(gamma=0.5, learning_starts=0, train_frequency=1, target_network_frequency=20)
    learns.store(transition(3.0, terminated))
    parameters = dict(learns.network.named_parameters())
    with torch.no_grad():  # so that action 1 is the greedy one, in the target network too
        parameters["4.weight"][0] = 0.0
        parameters["4.bias"][0] = -10.0
    learns._target.load_state_dict(learns.network.state_dict())
    for step in range(1, 400):
        learns.learn(step)
    here = torch.tensor([1.0, 0.0])
    assert learns.network(here)[1].item() == pytest.approx(value, rel=0.02)
    assert learns.act(here.numpy()) == 1


def test_a_full_buffer_forgets_the_oldest() -> None:
    learns = learner(buffer_size=3)
    for reward in range(5):
        learns.store(transition(float(reward), False))
    assert sorted(learns._columns[2].tolist()) == [2.0, 3.0, 4.0]


def test_it_updates_as_often_as_published() -> None:
    found = cleanrl_dqn.run("CartPole-v1", "dqn", 0, Rule(1_000.0, 600.0, most_steps=10_101, period_steps=10**9))
    assert (found.environment_steps, found.updates) == (10_101, 10)
    assert found.seconds_to_score is None
