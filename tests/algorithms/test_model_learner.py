"""The world model's training: targets by hand, a linear world that it must fit, rows that it never sees."""

from math import inf, nan

import numpy as np
import pytest
import torch

from headrace import DynaQ
from headrace.algorithms.dyna_q.model_learner import ModelLearner, change, held_out
from headrace.errors import DivergenceError
from headrace.types import Batch, EnvironmentSpec

SPEC = EnvironmentSpec((2,), "float32", 2)
SMALL = DynaQ(ensemble_size=3, model_hidden=(32,), model_batch_size=32, model_learning_rate=3e-3)


def linear_world(random: np.random.Generator, count: int) -> Batch:
    """Action 1 adds (0.5, -0.1) to a turning state, 0 takes it away; reward s_0 - s_1; it ends where s_0 > 1."""
    state = random.uniform(-1.5, 1.5, (count, 2)).astype(np.float32)
    action = random.integers(0, 2, count)
    turned = state @ np.array([[0.9, 0.2], [-0.2, 0.9]], np.float32)
    following = (turned + np.array([0.5, -0.1], np.float32) * (2 * action[:, None] - 1)).astype(np.float32)
    return Batch(
        observation=state,
        next_observation=following,
        action=action,
        reward=state[:, 0] - state[:, 1],
        discount=np.where(state[:, 0] > 1, 0, 1).astype(np.float32),
        weight=np.ones(count, np.float32),
        probability=np.full(count, 1 / count, np.float32),
        key=random.integers(0, 2**63, count, dtype=np.uint64),
        policy_version=np.ones(count, np.uint64),
    )


def test_the_prediction_target_is_the_change_of_the_state() -> None:
    found = change(torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor([[1.25, -4.0], [0.5, 2.0]]))
    assert found.tolist() == [[0.25, -2.0], [0.0, -1.0]]


def test_one_transition_in_ten_is_held_out_permanently() -> None:
    keys = np.arange(100_000, dtype=np.uint64)
    out = held_out(keys)
    assert abs(out.mean() - 0.1) < 4 * np.sqrt(0.09 / len(keys))
    assert (held_out(keys[::-1])[::-1] == out).all()
    both = (out[1:] & out[:-1]).mean()  # neighbors in time are not held out together more often than others
    assert abs(both - 0.01) < 0.002


def test_a_linear_world_is_learned_with_a_small_held_out_error() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    random = np.random.default_rng(0)
    assert learner.error == inf
    for _ in range(20):
        learner.learn(linear_world(random, 96))
    assert learner.error > 0.2
    for _ in range(580):
        learner.learn(linear_world(random, 96))
    assert learner.version == 600
    assert learner.error < 0.05
    fresh = linear_world(random, 500)
    found = learner.model.predict(torch.from_numpy(fresh.observation), torch.from_numpy(fresh.action))
    np.testing.assert_allclose(found.change.mean(0), fresh.next_observation - fresh.observation, atol=0.1)
    np.testing.assert_allclose(found.reward.mean(0), fresh.reward, atol=0.2)
    sure = np.abs(fresh.observation[:, 0] - 1) > 0.2
    assert ((found.done.mean(0).numpy() > 0) == (fresh.discount == 0))[sure].mean() > 0.98


def test_unpredictable_targets_give_the_error_of_the_mean() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    random = np.random.default_rng(0)
    for _ in range(200):
        batch = linear_world(random, 96)
        noise = random.normal(size=(96, 2)).astype(np.float32)
        learner.learn(batch._replace(next_observation=batch.observation + noise, reward=noise[:, 0] - noise[:, 1]))
    assert 0.95 < learner.error < 1.2


def test_held_out_transitions_are_never_learned_from() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    twin = ModelLearner(SMALL, SPEC, seed=0)
    random = np.random.default_rng(0)
    for _ in range(5):
        batch = linear_world(random, 96)
        out = held_out(batch.key)
        assert 0 < out.sum() < 96
        spoilt = batch._replace(reward=np.where(out, 1e6, batch.reward).astype(np.float32))
        assert learner.learn(batch) == twin.learn(spoilt)
    for mine, theirs in zip(learner.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_weights_correct_for_sampling() -> None:
    """A row of weight 2 counts as two rows."""
    random = np.random.default_rng(0)
    keys = np.arange(1000, dtype=np.uint64)
    keys = keys[~held_out(keys)][:48]
    single = linear_world(random, 48)._replace(key=keys)
    double = Batch._make(field.repeat(2, axis=0) for field in single)
    learner, twin = ModelLearner(SMALL, SPEC, seed=0), ModelLearner(SMALL, SPEC, seed=0)
    heavy = single._replace(weight=np.full(48, 2, np.float32))
    assert abs(learner.learn(double) - twin.learn(heavy)) < 1e-5


def test_creating_a_model_does_not_change_torchs_random_state() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = ModelLearner(SMALL, SPEC, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.model.weights[0], ModelLearner(SMALL, SPEC, seed=1).model.weights[0])
    assert not torch.equal(first.model.weights[0], ModelLearner(SMALL, SPEC, seed=2).model.weights[0])


def test_a_fully_held_out_batch_changes_nothing() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    batch = linear_world(np.random.default_rng(0), 96)
    learner.learn(batch)
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    [key] = [key for key in range(20) if held_out(np.full(1, key, np.uint64))][:1]
    learner.learn(batch._replace(key=np.full(96, key, np.uint64)))
    assert learner.version == 2
    for name, value in learner.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    learner.learn(batch)
    assert all(value.isfinite().all() for value in learner.model.state_dict().values())


def test_a_loss_that_is_not_finite_raises() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    batch = linear_world(np.random.default_rng(0), 96)
    with pytest.raises(DivergenceError, match="the world model's loss of update 1 is nan"):
        learner.learn(batch._replace(reward=np.full(96, nan, np.float32)))
