"""The ensemble: each member is a separate network; scales cover all rows."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.networks.world_model import WorldModel

Floats = NDArray[np.float32]
COUNT = (2 + 3) * 5 + 5 + 5 * 4 + 4
"""Parameters of one member of make_model()."""


def make_model(members: int = 3, seed: int = 0) -> WorldModel:
    return WorldModel(2, 3, (5,), members, np.random.default_rng(seed))


def rows(count: int, seed: int = 0) -> tuple[Floats, Floats, Floats, Floats]:
    random = np.random.default_rng(seed)
    observation, change = random.normal([3, -7], [2, 0.1], (2, count, 2)).astype(np.float32)
    reward, weight = random.normal(5, 4, count), random.uniform(0, 1, count)
    return observation, change, reward.astype(np.float32), weight.astype(np.float32)


def test_initial_weights_are_uniform_and_biases_zero() -> None:
    model = WorldModel(4, 5, (100,), 20, np.random.default_rng(0))
    member = model.parameters.reshape(20, -1)
    first, bias, second, last = np.split(member, np.cumsum([9 * 100, 100, 100 * 6]), axis=1)
    assert not bias.any()
    assert last.shape == (20, 6)
    assert not last.any()
    for weights, inputs in ((first, 9), (second, 100)):
        bound = inputs**-0.5
        assert 0.999 * bound < np.abs(weights).max() <= bound
        uniform = np.sort(weights.ravel()) / bound
        np.testing.assert_allclose(uniform, np.linspace(-1, 1, uniform.size), atol=0.03)
        assert abs(np.corrcoef(weights[0], weights[1])[0, 1]) < 0.2  # members are independent


def test_the_same_generator_gives_the_same_weights() -> None:
    assert (make_model(seed=1).parameters == make_model(seed=1).parameters).all()
    assert (make_model(seed=1).parameters != make_model(seed=2).parameters).any()


def test_scales_do_not_depend_on_how_rows_are_split() -> None:
    model = make_model()
    parts = [rows(40, seed) for seed in range(3)]
    for part in parts:
        model.observe(*part)
    observation, change, reward, weight = (
        np.concatenate(column).astype(np.float64) for column in zip(*parts, strict=True)
    )
    targets = np.column_stack((change, reward))
    for scale, values in ((model.inputs, observation), (model.targets, targets)):
        mean = np.average(values, axis=0, weights=weight)
        deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
        np.testing.assert_allclose(scale.mean, mean, rtol=1e-6)
        np.testing.assert_allclose(scale.deviation, deviation, rtol=1e-5)


def test_targets_are_scaled() -> None:
    """Changes -1 and 1 have mean 0 and deviation 1; rewards 0 and 6 have 3 and 3."""
    model = WorldModel(1, 2, (), 1, np.random.default_rng(0))
    change, reward = np.array([[-1], [1]], np.float32), np.array([0, 6], np.float32)
    model.observe(np.zeros((2, 1), np.float32), change, reward, np.ones(2, np.float32))
    assert model.scaled(2 * change, reward).tolist() == [[-2, -1], [2, 1]]


def test_a_constant_feature_is_not_divided_by_zero() -> None:
    model = make_model()
    ones, still = np.ones((4, 2), np.float32), np.zeros(4, np.float32)
    model.observe(ones, np.zeros((4, 2), np.float32), still, np.ones(4, np.float32))
    assert model.inputs.deviation.tolist() == [1, 1]
    assert np.isfinite(model.predict(ones, np.zeros(4, np.int64)).change).all()


def test_each_member_predicts_with_its_own_network() -> None:
    model = make_model()
    model.observe(*rows(50))
    model.parameters += 0.1  # no bias is 0
    observation = rows(4, seed=9)[0]
    action = np.array([0, 2, 1, 1])
    found = model.predict(observation, action)
    assert (found.change.shape, found.reward.shape, found.done.shape) == ((3, 4, 2), (3, 4), (3, 4))
    state = (observation - model.inputs.mean) / model.inputs.deviation
    inputs = np.hstack((state, np.eye(3)[action]))
    for member in range(3):
        parameters = model.parameters[member * COUNT : (member + 1) * COUNT]
        first, bias, second, last = np.split(parameters, np.cumsum([5 * 5, 5, 5 * 4]))
        hidden = inputs @ first.reshape(5, 5) + bias
        output = (hidden / (1 + np.exp(-hidden))) @ second.reshape(5, 4) + last
        values = output[:, :3] * model.targets.deviation + model.targets.mean
        np.testing.assert_allclose(found.change[member], values[:, :2], rtol=1e-4)
        np.testing.assert_allclose(found.reward[member], values[:, 2], rtol=1e-4)
        np.testing.assert_allclose(found.done[member], output[:, 3], rtol=1e-4, atol=1e-6)
    assert not np.allclose(found.reward[0], found.reward[1])


def test_members_may_have_different_rows() -> None:
    model = make_model()
    random = np.random.default_rng(0)
    observation = random.standard_normal((3, 4, 2)).astype(np.float32)
    action = random.integers(3, size=(3, 4))
    apart = model.forward(observation, action)
    for member in range(3):
        np.testing.assert_array_equal(apart[member], model.forward(observation[member], action[member])[member])


def test_the_gradient_is_that_of_the_outputs() -> None:
    """By central differences."""
    model = make_model()
    random = np.random.default_rng(0)
    observation = random.standard_normal((3, 4, 2)).astype(np.float32)
    action = random.integers(3, size=(3, 4))
    dy = random.standard_normal((3, 4, 4)).astype(np.float32)
    model.forward(observation, action)
    model.backward(dy)
    found = model.gradient.copy()
    for place in range(0, 3 * COUNT, 7):
        value = model.parameters[place]
        sums = []
        for side in (0.01, -0.01):
            model.parameters[place] = value + side
            sums.append((dy * model.forward(observation, action)).sum(dtype=np.float64))
        model.parameters[place] = value
        assert found[place] == pytest.approx((sums[0] - sums[1]) / 0.02, abs=3e-3)


def test_states_of_another_type_are_refused() -> None:
    model = make_model()
    with pytest.raises(ConfigError, match="float32"):
        model.forward(np.zeros((4, 2)), np.zeros(4, np.int64))  # type: ignore[arg-type]
