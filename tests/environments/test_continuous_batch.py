"""The batch with continuous actions: bounds, checks, state."""

import json
import re

import numpy as np
import pytest

from headrace.environments import episode_seed, make, make_batch
from headrace.errors import EnvironmentFault

TARGET = "headrace.environments.toy:Target"


def random_actions(step, count, dimensions):
    return np.random.default_rng([6, step]).uniform(-1, 1, (count, dimensions)).astype(np.float32)


def test_pendulum_batch_equals_single_environments():
    """Pendulum's torque is -2 to 2: twice the policy's action."""
    batch = make_batch("Pendulum-v1", 2, seed=4, first_index=1)
    assert (batch.spec.continuous, batch.spec.actions) == (True, 1)
    twins = [make("Pendulum-v1") for _ in range(2)]
    begun = [twin.reset(seed=episode_seed(4, 1 + i, 0))[0] for i, twin in enumerate(twins)]
    np.testing.assert_array_equal(batch.start(), begun)
    total = np.zeros(2)
    for t in range(200):
        actions = random_actions(t, 2, 1)
        step = batch.step(actions)
        for i, twin in enumerate(twins):
            observation, reward, terminated, truncated, _ = twin.step(2 * actions[i])
            np.testing.assert_array_equal(step.observation[i], observation)
            assert step.reward[i] == np.float32(reward)
            assert (terminated, truncated) == (False, t == 199)
            total[i] += reward
    assert step.truncated.tolist() == [True, True]
    episodes = batch.take_episodes()
    assert [(e.environment, e.length, e.terminated) for e in episodes] == [(1, 200, False), (2, 200, False)]
    np.testing.assert_allclose([e.return_ for e in episodes], total, rtol=1e-12)


def test_continuous_lunar_lander_in_a_factory(own_module):
    name = own_module("""
        import gymnasium
        def lander():
            return gymnasium.make("LunarLander-v3", continuous=True)
    """)
    batch = make_batch(f"{name}:lander", 3, seed=0)
    batch.start()
    for t in range(200):
        batch.step(random_actions(t, 3, 2))
    assert batch.episodes > 0
    batch.close()


def test_actions_have_the_spaces_shape_and_dtype_and_are_not_reused(own_module):
    name = own_module("""
        import numpy as np
        from gymnasium import spaces
        from headrace.environments.toy import Target
        taken = []
        class Grid(Target):
            def __init__(self):
                super().__init__()
                low = np.array([[-1, 0, 10], [-4, -4, -4]])
                self.action_space = spaces.Box(low, np.array([[3, 1, 10], [4, 4, 4]]), dtype=np.float64)
            def step(self, action):
                assert self.action_space.contains(action)
                taken.append(action)
                return super().step(action[0])
    """)
    batch = make_batch(f"{name}:Grid", 2, seed=0)
    assert batch.spec.actions == 6
    batch.start()
    actions = np.array([[-1, 0, 0.5, 0.25, -0.5, 1], [1, 1, 1, 1, 1, 1]], np.float32)
    batch.step(actions)
    actions[:] = 0
    batch.step(actions)
    assert [action.tolist() for action in __import__(name).taken] == [
        [[-1, 0.5, 10], [1, -2, 4]],
        [[3, 1, 10], [4, 4, 4]],
        [[1, 0.5, 10], [0, 0, 0]],
        [[1, 0.5, 10], [0, 0, 0]],
    ]
    assert batch.state()["actions"][0] == [[-1, 0, 0.5, 0.25, -0.5, 1], [0] * 6]  # as the policy gave them


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite(value):
    batch = make_batch(TARGET, 3, seed=0, first_index=5)
    batch.start()
    batch.step(np.zeros((3, 1), np.float32))
    before = batch.state()
    problem = f"index 6, episode 0, step 1: the policy's next action[0] is {value}; every value must be finite"
    with pytest.raises(EnvironmentFault, match=re.escape(f'environment "{TARGET}", {problem}')):
        batch.step(np.array([[0], [value], [0]], np.float32))
    assert batch.state() == before  # no environment took a step


@pytest.mark.parametrize("environment_id", [TARGET, "Pendulum-v1", "dm_control/cheetah-run"])
def test_restored_batch_continues_bit_for_bit(environment_id):
    first = make_batch(environment_id, 2, seed=9, first_index=2)
    dimensions = first.spec.actions
    first.start()
    frames, taken = [], []
    for t in range(37):  # a Target has three episodes, and seven steps of the fourth, behind it
        step = first.step(random_actions(t, 2, dimensions))
        frames.append(step.next_start)
        taken.append((random_actions(t, 2, dimensions), step.reward))
    first.take_episodes()
    second = make_batch(environment_id, 2, seed=9, first_index=2)
    replays = second.restore(json.loads(json.dumps(first.state())))
    open_steps = 7 if environment_id == TARGET else 37
    for i, replay in enumerate(replays):
        assert (replay.action.shape, replay.action.dtype) == ((open_steps, dimensions), np.float32)
        np.testing.assert_array_equal(replay.action, [action[i] for action, _ in taken[-open_steps:]])
        np.testing.assert_array_equal(replay.reward, [reward[i] for _, reward in taken[-open_steps:]])
        np.testing.assert_array_equal(replay.frames[1:], [frame[i] for frame in frames[-open_steps:]])
    assert second.state() == first.state()
    for t in range(37, 60):
        actions = random_actions(t, 2, dimensions)
        for ours, theirs in zip(second.step(actions), first.step(actions), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert second.take_episodes() == first.take_episodes()


def test_restore_at_the_start_of_an_episode_has_no_actions():
    first = make_batch(TARGET, 1, seed=0)
    first.start()
    for t in range(10):
        first.step(random_actions(t, 1, 1))
    assert first.state()["actions"] == [[]]
    (replay,) = make_batch(TARGET, 1, seed=0).restore(first.state())
    assert (replay.action.shape, replay.action.dtype) == ((0, 1), np.float32)
