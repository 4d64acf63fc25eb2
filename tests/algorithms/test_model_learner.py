"""The world model's training: next to torch's, a linear world that it must fit, rows that it never sees."""

from dataclasses import replace
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from headrace import DynaQ
from headrace._native import Optimizer, OptimizerOptions
from headrace.algorithms.dyna_q.model_learner import ModelLearner, change, held_out
from headrace.errors import DivergenceError
from headrace.types import Batch, EnvironmentSpec

SPEC = EnvironmentSpec((2,), "float32", 2)
SMALL = DynaQ(ensemble_size=3, model_hidden=(32,), model_batch_size=32, model_learning_rate=3e-3)
RATE = 0.05


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


def state(learner: ModelLearner) -> NDArray[np.float32]:
    """Parameters and statistics."""
    model = learner.model
    scales = [value for scale in (model.inputs, model.targets) for value in (scale.mean, scale.deviation)]
    return np.concatenate([model.parameters, *scales])


class TorchModel(nn.Module):
    """The members' MLPs as batched matrix products, from the parameters of a learner, and scales over all rows."""

    def __init__(self, learner: ModelLearner, hidden: tuple[int, ...]) -> None:
        super().__init__()
        sizes, members = (4, *hidden, 4), learner.model.members
        shapes = [shape for pair in pairwise(sizes) for shape in (pair, (1, pair[1]))]
        parts = np.split(learner.model.parameters.reshape(members, -1), np.cumsum([a * b for a, b in shapes])[:-1], 1)
        self.tensors = nn.ParameterList(
            torch.tensor(part.reshape(members, *shape)) for part, shape in zip(parts, shapes, strict=True)
        )
        self.rows: list[tuple[Tensor, Tensor]] = []  # observed states and targets, and their weights
        self.optimizer = torch.optim.SGD(self.parameters(), RATE)

    def flat(self, tensors: list[Tensor]) -> NDArray[np.float32]:
        """Tensors of the members in the order of a learner's parameters."""
        return torch.cat([tensor.detach().flatten(1) for tensor in tensors], 1).numpy().ravel()

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        x = torch.cat((state, functional.one_hot(action, 2)), -1)
        for weight, bias in zip(self.tensors[:-2:2], self.tensors[1:-2:2], strict=True):
            x = functional.silu(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(self.tensors[-1], x, self.tensors[-2])

    def learn(self, batch: Batch) -> float:
        fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)
        state, following, action, reward, discount, weight = map(torch.from_numpy, fields)
        weight = weight * ~torch.from_numpy(held_out(batch.key))
        values = torch.cat((state, following - state, reward[:, None]), 1)
        self.rows.append((values.double(), weight.double()))
        rows, weights = map(torch.cat, zip(*self.rows, strict=True))
        mean = weights @ rows / weights.sum()
        deviation = (weights @ (rows - mean).square() / weights.sum()).sqrt()
        state, target = ((values - mean) / deviation).float().split((2, 3), 1)
        members = len(self.tensors[0])
        columns = (state, action, target, (discount == 0).float(), weight)
        state, action, target, ended, share = (column.unflatten(0, (-1, members)).transpose(0, 1) for column in columns)
        y = self(state, action)
        squared = (y[..., :-1] - target).square().mean(-1)
        termination = functional.binary_cross_entropy_with_logits(y[..., -1], ended, reduction="none")
        loss = ((squared + termination) * share).sum() / share.sum(1).mean()
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item() / members


def make_pair(hidden: tuple[int, ...]) -> tuple[ModelLearner, TorchModel]:
    """A learner with SGD and its twin: Adam would make steps of rounding errors."""
    learner = ModelLearner(replace(SMALL, model_hidden=hidden), SPEC, seed=0)
    learner._optimizer = Optimizer(OptimizerOptions("sgd", learning_rate=RATE), len(learner.model.parameters))
    return learner, TorchModel(learner, hidden)


@pytest.mark.parametrize("hidden", [(), (33,), (32, 24)])
def test_gradients_are_torch_s(hidden: tuple[int, ...]) -> None:
    learner, twin = make_pair(hidden)
    batch = linear_world(np.random.default_rng(0), 96)
    assert learner.learn(batch) == pytest.approx(twin.learn(batch), rel=1e-5)
    expected = twin.flat([tensor.grad for tensor in twin.tensors])
    assert np.abs(learner.model.gradient - expected).max() <= 1e-5 * np.abs(expected).max()


def test_200_updates_are_torch_s() -> None:
    learner, twin = make_pair((32, 24))
    initial = learner.model.parameters.copy()
    random = np.random.default_rng(0)
    for _ in range(200):
        weight = random.uniform(0.1, 1, 96).astype(np.float32)
        batch = linear_world(random, 96)._replace(weight=weight)
        assert learner.learn(batch) == pytest.approx(twin.learn(batch), rel=1e-3)
    assert np.abs(learner.model.parameters - initial).max() > 0.1
    np.testing.assert_allclose(learner.model.parameters, twin.flat(list(twin.tensors)), rtol=0, atol=1e-4)


def test_overfits_one_batch() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    random = np.random.default_rng(0)
    batch = linear_world(random, 24)
    batch = batch._replace(reward=random.normal(size=24).astype(np.float32))
    first = learner.learn(batch)
    for _ in range(1000):
        last = learner.learn(batch)
    assert last < first / 100


def test_the_prediction_target_is_the_change_of_the_state() -> None:
    found = change(np.array([[1, -2], [0.5, 3]], np.float32), np.array([[1.25, -4], [0.5, 2]], np.float32))
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
    for _ in range(19):
        learner.learn(linear_world(random, 96))
    assert learner.error == inf
    learner.learn(linear_world(random, 96))
    assert learner.error > 0.2
    for _ in range(580):
        learner.learn(linear_world(random, 96))
    assert learner.version == 600
    assert learner.error < 0.05
    fresh = linear_world(random, 500)
    found = learner.model.predict(fresh.observation, fresh.action)
    np.testing.assert_allclose(found.change.mean(0), fresh.next_observation - fresh.observation, atol=0.1)
    np.testing.assert_allclose(found.reward.mean(0), fresh.reward, atol=0.2)
    sure = np.abs(fresh.observation[:, 0] - 1) > 0.2
    assert ((found.done.mean(0) > 0) == (fresh.discount == 0))[sure].mean() > 0.98


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
    np.testing.assert_array_equal(learner.model.parameters, twin.model.parameters)


def test_the_error_is_that_of_the_newest_2048_held_out_transitions() -> None:
    """Those of an older batch count only as long as there are fewer in the newer ones."""
    random = np.random.default_rng(0)
    keys = np.arange(50_000, dtype=np.uint64)
    out = held_out(keys)
    old, new = (linear_world(random, count)._replace(key=keys[out][:count]) for count in (500, 2048))
    trained = linear_world(random, 96)._replace(key=keys[~out][:96])

    def error(older: Batch, newer: Batch) -> float:
        learner = ModelLearner(SMALL, SPEC, seed=0)
        for batch in (older, newer, *[trained] * 18):
            learner.learn(batch)
        return learner.error

    spoilt = old._replace(reward=old.reward + 100)
    assert error(old, new) == error(spoilt, new)
    fewer = Batch._make(field[1:] for field in new)
    assert error(old, fewer) < error(spoilt, fewer)


def test_weights_correct_for_sampling() -> None:
    """A row of weight 2 counts as two rows."""
    random = np.random.default_rng(0)
    keys = np.arange(1000, dtype=np.uint64)
    keys = keys[~held_out(keys)][:48]
    single = linear_world(random, 48)._replace(key=keys)
    double = Batch._make(np.concatenate((field, field)) for field in single)  # each row twice for the same member
    learner, twin = ModelLearner(SMALL, SPEC, seed=0), ModelLearner(SMALL, SPEC, seed=0)
    heavy = single._replace(weight=np.full(48, 2, np.float32))
    assert abs(learner.learn(double) - twin.learn(heavy)) < 1e-5


def test_the_seed_decides_the_initial_weights() -> None:
    first, same, other = (ModelLearner(SMALL, SPEC, seed).model.parameters for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_a_fully_held_out_batch_changes_nothing() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    batch = linear_world(np.random.default_rng(0), 96)
    learner.learn(batch)
    before = state(learner)
    [key] = [key for key in range(20) if held_out(np.full(1, key, np.uint64))][:1]
    learner.learn(batch._replace(key=np.full(96, key, np.uint64)))
    assert learner.version == 2
    np.testing.assert_array_equal(state(learner), before)
    learner.learn(batch)
    assert np.isfinite(state(learner)).all()


def test_a_loss_that_is_not_finite_raises() -> None:
    learner = ModelLearner(SMALL, SPEC, seed=0)
    batch = linear_world(np.random.default_rng(0), 96)
    with pytest.raises(DivergenceError, match="the world model's loss of update 1 is nan"):
        learner.learn(batch._replace(reward=np.full(96, nan, np.float32)))
