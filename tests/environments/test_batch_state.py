"""The state of the batch: restored, it continues bit for bit, and failed steps are not part of it."""

import json
import re
import sys

import numpy as np
import pytest

from headrace.environments import make_batch
from headrace.errors import CheckpointError, EnvironmentFault
from headrace.types import Array

from .conftest import TOY, random_actions, zeros


def same(ours, theirs):
    assert ours.skipped is theirs.skipped is None
    for our, their in zip(ours[:5], theirs[:5], strict=True):
        np.testing.assert_array_equal(our, their)
        assert our.dtype == their.dtype


@pytest.mark.parametrize("environment_id", ["CartPole-v1", "LunarLander-v3"])
def test_restored_batch_continues_bit_for_bit(environment_id):
    count = 3
    first = make_batch(environment_id, count, seed=9, first_index=2)
    history = [[frame] for frame in first.start()]
    taken = [[] for _ in range(count)]
    for t in range(500):
        actions = random_actions(3, t, count, first.spec.actions)
        step = first.step(actions)
        for i in range(count):
            if step.terminated[i] or step.truncated[i]:
                history[i], taken[i] = [], []
            else:
                taken[i].append((actions[i], step.reward[i]))
            history[i].append(step.next_start[i])
    first.take_episodes()

    second = make_batch(environment_id, count, seed=9, first_index=2)
    replays = second.restore(json.loads(json.dumps(first.state())))
    assert sum(len(replay.action) for replay in replays) > 0
    for i, replay in enumerate(replays):
        np.testing.assert_array_equal(replay.frames, history[i])
        assert replay.frames.dtype == np.float32
        assert list(zip(replay.action, replay.reward, strict=True)) == taken[i]
    assert second.state() == first.state()
    for t in range(500, 1000):
        actions = random_actions(3, t, count, first.spec.actions)
        same(first.step(actions), second.step(actions))
    episodes = first.take_episodes()
    assert len(episodes) > 3
    assert second.take_episodes() == episodes
    assert second.episodes == first.episodes


def test_state_is_not_changed_by_later_steps():
    batch = make_batch("CartPole-v1", 1, seed=0)
    batch.start()
    batch.step(zeros(1))
    state = batch.state()
    batch.step(zeros(1))
    assert state["actions"] == [[0]]


def test_restoring_a_nondeterministic_environment_starts_its_next_episode(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        limits = [40, 2, 40]
        class Fickle(Corridor):
            def reset(self, **options):
                self._limit = limits.pop(0)
                return super().reset(**options)
    """)
    first = make_batch(f"{name}:Fickle", 1, seed=0)
    first.start()
    for _ in range(3):
        first.step(np.array([1]))
    second = make_batch(f"{name}:Fickle", 1, seed=0)
    (replay,) = second.restore(first.state())
    assert replay.frames.argmax(1).tolist() == [0]
    assert (replay.action.shape, replay.reward.shape) == ((0,), (0,))
    assert second.state()["episode"] == [1]
    assert second.state()["actions"] == [[]]


def test_an_episode_that_leads_elsewhere_is_not_gone_on_with(own_module):
    """A world that keeps something over resets, as BipedalWalker's does: a later episode is not that of a new one."""
    name = own_module("""
        from headrace.environments.toy import Corridor
        class Keeping(Corridor):
            resets = 0
            def reset(self, **options):
                self.resets += 1
                observation, info = super().reset(**options)
                return observation * self.resets, info
    """)
    first = make_batch(f"{name}:Keeping", 2, seed=0)
    first.start()
    while first.state()["episode"][0] < 2:
        first.step(np.array([1, 0]))  # only one of them gets anywhere
    state = first.state()
    again = make_batch(f"{name}:Keeping", 2, seed=0)
    left, went_on = again.restore(state)
    assert (left.frames.shape, left.action.shape) == ((1, 8), (0,))
    assert went_on.action.tolist() == state["actions"][1]
    assert [after - before for after, before in zip(again.state()["episode"], state["episode"], strict=True)] == [1, 0]


def test_an_episode_whose_actions_are_illegal_when_repeated_is_not_gone_on_with(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        class Moody(Corridor):
            illegal = False
            def step(self, action):
                if self.illegal:
                    raise ValueError("illegal today")
                return super().step(action)
    """)
    first = make_batch(f"{name}:Moody", 1, seed=0)
    first.start()
    first.step(np.array([0]))
    sys.modules[name].Moody.illegal = True
    (left,) = make_batch(f"{name}:Moody", 1, seed=0).restore(first.state())
    assert (len(left.frames), len(left.action)) == (1, 0)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("environment", "Acrobot-v1", "environment is 'Acrobot-v1' in the checkpoint; 'CartPole-v1' is required"),
        ("seed", 8, "seed is 8 in the checkpoint; 0 is required"),
        ("first_index", 3, "first_index is 3 in the checkpoint; 0 is required"),
        ("episode", [0], "the checkpoint holds 1 environments; 2 are required"),
    ],
)
def test_state_of_another_batch_is_refused(field, value, problem):
    batch = make_batch("CartPole-v1", 2, seed=0)
    batch.start()
    with pytest.raises(CheckpointError, match=re.escape(problem)):
        batch.restore({**batch.state(), field: value})


@pytest.mark.parametrize(("toy", "error"), [("NanObservation", EnvironmentFault), ("Crashing", RuntimeError)])
def test_a_failed_step_is_not_part_of_the_state(toy, error):
    batch = make_batch(f"{TOY}:{toy}", 1, seed=0)
    batch.start()
    for _ in range(6):
        batch.step(np.array([1]))
    with pytest.raises(error):
        batch.step(np.array([1]))
    state = batch.state()
    assert state["actions"] == [[1] * 6]
    make_batch(f"{TOY}:{toy}", 1, seed=0).restore(state)


@pytest.mark.parametrize("method", ["step", "reset"])
def test_a_step_that_fails_in_one_environment_counts_in_none(own_module, method):
    name = own_module(f"""
        from headrace.environments.toy import Corridor
        made = []
        class Second(Corridor):
            def __init__(self):
                self.fails = False
                made.append(self)
                super().__init__()
            def step(self, action):
                observation, reward, *_ = super().step(action)
                if self.fails and "{method}" == "step":
                    raise RuntimeError("failed")
                return observation, reward, self.fails, False, {{}}
            def reset(self, **options):
                if self.fails:
                    raise RuntimeError("failed")
                return super().reset(**options)
    """)
    batch = make_batch(f"{name}:Second", 3, seed=0)
    batch.start()
    batch.step(np.array([1, 0, 1]))
    before = batch.state()
    __import__(name).made[1].fails = True
    with pytest.raises(RuntimeError, match="failed"):
        batch.step(np.array([0, 1, 0]))
    assert batch.state() == before
    assert batch.take_episodes() == []


@pytest.mark.parametrize("environment_id", ["Pendulum-v1", "headrace/Wheels-v0"])
def test_actions_of_several_dimensions_are_repeated(environment_id: str) -> None:
    """A continuous one, and discrete ones in several dimensions."""
    first, generator = make_batch(environment_id, 2, seed=5), np.random.default_rng(1)
    first.start()

    def draw() -> Array:
        if first.spec.continuous:
            return generator.uniform(-1, 1, (2, first.spec.actions)).astype(np.float32)
        return generator.integers(0, first.spec.branches, (2, len(first.spec.branches)))

    taken = [draw() for _ in range(4)]
    for actions in taken:
        newest = first.step(actions).next_start
    state = json.loads(json.dumps(first.state()))
    again = make_batch(environment_id, 2, seed=5)
    opened = again.restore(state)
    np.testing.assert_array_equal([each.frames[-1] for each in opened], newest)
    np.testing.assert_array_equal(np.stack([each.action for each in opened], axis=1), taken)
    actions = draw()
    np.testing.assert_array_equal(again.step(actions).observation, first.step(actions).observation)


def test_an_episode_without_end_is_not_kept(monkeypatch):
    """Its actions would fill the memory; after a restore the next episode begins."""
    monkeypatch.setattr("headrace.environments.batch._MOST_REPEATED_STEPS", 5)
    first = make_batch(f"{TOY}:Corridor", 2, seed=0)
    first.start()
    for _ in range(5):
        first.step(zeros(2))
    assert first.state()["actions"] == [[0] * 5] * 2
    first.step(np.array([1, 0]))
    state = first.state()
    assert state["actions"] == [None, None]
    again = make_batch(f"{TOY}:Corridor", 2, seed=0)
    assert [len(episode.action) for episode in again.restore(state)] == [0, 0]
    assert again.state()["episode"] == [1, 1]
