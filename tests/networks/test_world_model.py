"""The ensemble: each member is a separate network; scales cover all rows."""

import numpy as np
import torch

from headrace.networks.world_model import WorldModel


def make_model(members: int = 3) -> WorldModel:
    torch.manual_seed(0)
    return WorldModel(2, 3, (5,), members)


def rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    observation, change = random.normal([3, -7], [2, 0.1], (2, count, 2)).astype(np.float32)
    reward, weight = random.normal(5, 4, count), random.uniform(0, 1, count)
    return (
        torch.from_numpy(observation),
        torch.from_numpy(change),
        torch.from_numpy(reward.astype(np.float32)),
        torch.from_numpy(weight.astype(np.float32)),
    )


def test_scales_do_not_depend_on_how_rows_are_split() -> None:
    model = make_model()
    parts = [rows(40, seed) for seed in range(3)]
    for part in parts:
        model.observe(*part)
    observation, change, reward, weight = (torch.cat(column).double().numpy() for column in zip(*parts, strict=True))
    targets = np.column_stack((change, reward))
    for scale, values in ((model.inputs, observation), (model.targets, targets)):
        mean = np.average(values, axis=0, weights=weight)
        deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
        np.testing.assert_allclose(scale.mean.numpy(), mean, rtol=1e-6)
        np.testing.assert_allclose(scale.deviation.numpy(), deviation, rtol=1e-5)


def test_a_constant_feature_is_not_divided_by_zero() -> None:
    model = make_model()
    still = torch.zeros(4)
    model.observe(torch.ones(4, 2), torch.zeros(4, 2), still, torch.ones(4))
    assert model.inputs.deviation.tolist() == [1, 1]
    assert model.predict(torch.ones(4, 2), torch.zeros(4, dtype=torch.long)).change.isfinite().all()


def test_each_member_predicts_with_its_own_network() -> None:
    model = make_model()
    model.observe(*rows(50))
    observation = rows(4, seed=9)[0]
    action = torch.tensor([0, 2, 1, 1])
    found = model.predict(observation, action)
    assert (found.change.shape, found.reward.shape, found.done.shape) == ((3, 4, 2), (3, 4), (3, 4))
    state = (observation.numpy() - model.inputs.mean.numpy()) / model.inputs.deviation.numpy()
    inputs = np.hstack((state, np.eye(3)[action]))
    for member in range(3):
        first, last = (weight.detach().numpy()[member] for weight in model.weights)
        hidden = inputs @ first
        output = (hidden / (1 + np.exp(-hidden))) @ last
        values = output[:, :3] * model.targets.deviation.numpy() + model.targets.mean.numpy()
        np.testing.assert_allclose(found.change[member], values[:, :2], rtol=1e-4)
        np.testing.assert_allclose(found.reward[member], values[:, 2], rtol=1e-4)
        np.testing.assert_allclose(found.done[member], output[:, 3], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(found.reward[0], found.reward[1])


def test_members_may_have_different_rows() -> None:
    model = make_model()
    observation, action = torch.randn(3, 4, 2), torch.randint(3, (3, 4))
    apart = model(observation, action)
    for member in range(3):
        torch.testing.assert_close(apart[member], model(observation[member], action[member])[member])
