"""SAC's gradient step: against a twin with torch's Adam, one batch overfitted, state carried over."""

from math import log, pi
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import OptimizerOptions
from headrace.algorithms.config import Engine
from headrace.algorithms.sac.config import SAC
from headrace.algorithms.sac.updater import SACUpdater
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.local import LocalVector
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.types import Array, Batch, EnvironmentSpec

from .conftest import CPU, SPEC, ended, make_batch, noise_of, split_parameters, twin_value

NEVER = 10**9


def make_updater(seed: int = 0, engine: Engine = "auto", **settings: Any) -> SACUpdater:
    small = {"hidden": (16,), "critic_hidden": (24, 16), "batch_size": 32}
    updater = SAC(**{**small, **settings}).make_updater(SPEC, CPU, seed, engine=engine)
    assert isinstance(updater, SACUpdater)
    return updater


class Twin:
    """The same update on plain float64 tensors, one expression for each layer, with torch.optim.Adam."""

    def __init__(self, state: dict[str, Array], rates: tuple[float, float, float]) -> None:
        self.policy = list(split_parameters(state["policy.parameters"], [(16, 3), (16,), (4, 16), (4,)]))
        shapes = [(2, 5, 24), (2, 24, 16), (2, 16, 1), (2, 1, 24), (2, 1, 16), (2, 1, 1)]
        self.critics = list(split_parameters(state["critics.parameters"], shapes))
        self.targets = [value.detach().clone() for value in self.critics]
        self.log_temperature = torch.from_numpy(state["temperature.parameters"]).double().requires_grad_()
        parts = (self.policy, self.critics, [self.log_temperature])
        self.adams = [torch.optim.Adam(part, rate) for part, rate in zip(parts, rates, strict=True)]
        self.random = noise_of(state)

    def act(self, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        w0, b0, w1, b1 = self.policy
        output = (s @ w0.T + b0).clamp(min=0) @ w1.T + b1
        mean, sigma = output[:, :2], output[:, 2:].exp()
        a = torch.tanh(mean + sigma * noise)
        normal = -0.5 * noise.square() - sigma.log() - 0.5 * log(2 * pi)
        return a, (normal - (1 - a.square()).log()).sum(1)

    def update(self, batch: Batch) -> tuple[Tensor, float]:
        s, s_n, a, r, d, w = (torch.from_numpy(batch[i]).double() for i in range(6))
        noise, next_noise = torch.from_numpy(self.random.standard_normal((2, *a.shape), np.float32)).double()
        alpha = self.log_temperature.detach().exp()
        with torch.no_grad():
            a_n, log_p_n = self.act(s_n, next_noise)
            smaller = torch.minimum(twin_value(self.targets, 0, s_n, a_n), twin_value(self.targets, 1, s_n, a_n))
            y = r + d * (smaller - alpha * log_p_n)
        errors = [y - twin_value(self.critics, member, s, a) for member in (0, 1)]
        loss = sum((0.5 * w * error**2).mean() for error in errors)
        assert isinstance(loss, Tensor)
        critic_gradients = torch.autograd.grad(loss, self.critics)
        ours, log_p = self.act(s, noise)
        value = torch.minimum(twin_value(self.critics, 0, s, ours), twin_value(self.critics, 1, s, ours))
        policy_gradients = torch.autograd.grad((alpha * log_p - value).mean(), self.policy)
        temperature_gradient = -(log_p.detach().mean(0, keepdim=True) - 2.0)
        parts = (policy_gradients, critic_gradients, [temperature_gradient])
        for adam, gradients in zip(self.adams, parts, strict=True):
            for parameter, gradient in zip(adam.param_groups[0]["params"], gradients, strict=True):
                parameter.grad = gradient
            adam.step()
        for slow, fast in zip(self.targets, self.critics, strict=True):
            slow.lerp_(fast.detach(), 0.1)
        return (errors[0].abs() + errors[1].abs()).detach() / 2, loss.item()


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_three_updates_equal_a_twin_written_out(engine: Engine) -> None:
    rates = (2e-3, 5e-3, 1e-2)
    updater = make_updater(
        engine=engine,
        learning_rate=rates[0],
        critic_learning_rate=rates[1],
        temperature_learning_rate=rates[2],
        target_update_rate=0.1,
    )
    twin = Twin(updater.state(), rates)
    for seed in range(3):
        batch = make_batch(seed=seed)
        priority, loss = twin.update(batch)
        update = updater.update(updater.transfer(batch))
        assert update.loss == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(update.priority, priority, atol=1e-5)
    state = updater.state()
    for part, parameters in (
        ("policy", twin.policy),
        ("critics", twin.critics),
        ("temperature", [twin.log_temperature]),
    ):
        flat = torch.cat([value.detach().flatten() for value in parameters])
        np.testing.assert_allclose(state[f"{part}.parameters"], flat, atol=2e-5, rtol=1e-4)
    for index in range(3):
        for name, expected in (("weights", twin.targets[index]), ("biases", twin.targets[3 + index])):
            np.testing.assert_allclose(state[f"target_critics.{name}.{index}"], expected, atol=2e-5, rtol=1e-4)


def test_target_of_a_known_case_by_hand() -> None:
    """A policy of mean 0 and sigma 1, critics that are constants 2 and 4, temperature e^-1.

    The action's noise z gives log pi = sum_j -z_j^2 / 2 - log(2 pi) / 2 - log(1 - tanh(z_j)^2).
    """
    updater = make_updater(initial_temperature=np.exp(-1.0).item())
    state = updater.state()
    for part in ("policy.parameters", "critics.parameters", *(f"target_critics.weights.{layer}" for layer in range(3))):
        state[part][:] = 0
    state["target_critics.biases.2"][:] = np.reshape([2.0, 4.0], (2, 1, 1))
    updater.load(state)
    z = noise_of(state).standard_normal((2, 1, 2), np.float32)[1, 0]
    log_pi = (-(z**2) / 2 - log(2 * pi) / 2 - np.log(1 - np.tanh(z) ** 2)).sum()
    one = np.ones(1, np.float32)
    batch = make_batch(1)._replace(reward=3 * one, discount=0.5 * one, weight=one)
    update = updater.update(updater.transfer(batch))
    target = 3 + 0.5 * (2 - np.exp(-1) * log_pi)
    assert update.priority[0] == pytest.approx(abs(target), rel=1e-5)  # the online critics are 0
    assert update.loss == pytest.approx(target**2, rel=1e-5)  # two critics, each half the square


def test_critics_overfit_one_batch() -> None:
    """Where every episode ends, the target is the reward, and the critics learn it exactly."""
    updater = make_updater(learning_rate=1e-12, critic_learning_rate=1e-2)
    batch = make_batch()._replace(discount=np.zeros(32, np.float32))
    tensors = updater.transfer(batch)
    first = updater.update(tensors)
    # At this rate Adam sometimes leaves the minimum again for a few updates.
    last = min((updater.update(tensors) for _ in range(1500)), key=lambda update: update.loss)
    assert last.loss < first.loss / 1000
    assert last.priority.mean() < first.priority.mean() / 30


def test_policy_finds_the_best_action_of_a_known_value() -> None:
    updater = make_updater(
        learning_rate=3e-3, critic_learning_rate=3e-3, initial_temperature=0.01, temperature_learning_rate=1e-12
    )
    for seed in range(1500):
        updater.update(updater.transfer(ended(seed)))
    action = np.tanh(updater.act(make_batch(seed=9999).observation)[:, :2])
    np.testing.assert_allclose(action.mean(0), [0.5, -0.3], atol=0.1)
    np.testing.assert_allclose(action, [[0.5, -0.3]] * 32, atol=0.3)


@pytest.mark.parametrize(("log_sigma", "direction"), [(-4.0, 1), (0.0, -1)])
def test_temperature_rises_for_a_narrow_policy_and_falls_for_a_broad_one(log_sigma: float, direction: int) -> None:
    """Entropies of about -5 and 0.6 nats, where the target is -2."""
    updater = make_updater(hidden=(), learning_rate=1e-12)
    state = updater.state()
    state["policy.parameters"][:] = 0
    state["policy.parameters"][-2:] = log_sigma  # biases of the head's second half
    updater.load(state)
    temperatures = [updater.temperature.value]
    for seed in range(5):
        updater.update(updater.transfer(make_batch(seed=seed)))
        temperatures.append(updater.temperature.value)
    assert (np.sign(np.diff(temperatures)) == direction).all()


@pytest.mark.slow
def test_temperature_brings_the_entropy_to_its_target() -> None:
    updater = make_updater(
        target_entropy=-1.0, learning_rate=3e-3, critic_learning_rate=3e-3, temperature_learning_rate=1e-2
    )
    for seed in range(2500):
        updater.update(updater.transfer(ended(seed)))
    mean, log_sigma = np.split(updater.act(make_batch(size=2000, seed=9999).observation).astype(np.float64), 2, axis=1)
    z = np.random.default_rng(0).standard_normal(mean.shape)
    slope = 1 - np.tanh(mean + np.exp(log_sigma) * z) ** 2
    log_pi = -(z**2) / 2 - log(2 * pi) / 2 - log_sigma - np.log(slope)
    assert -log_pi.sum(1).mean() == pytest.approx(-1.0, abs=0.3)


def test_importance_weights_apply_to_the_critics_only() -> None:
    plain, weighted = make_updater(), make_updater()
    batch = make_batch()._replace(weight=np.ones(32, np.float32))
    for updater, factor in ((plain, 1.0), (weighted, 0.5)):
        updater.update(updater.transfer(batch._replace(weight=factor * batch.weight)))
    first, second = plain.state(), weighted.state()
    for part, share in (("policy", 1.0), ("critics", 0.5), ("temperature", 1.0)):
        np.testing.assert_allclose(
            second[f"{part}.moments"][0], share * first[f"{part}.moments"][0], rtol=1e-5, atol=1e-9
        )


def test_averaged_targets() -> None:
    updater = make_updater(target_update_rate=0.25, target_update_period=2)
    before = updater.state()
    updater.update(updater.transfer(make_batch()))
    np.testing.assert_array_equal(updater.state()["target_critics.weights.0"], before["target_critics.weights.0"])
    updater.update(updater.transfer(make_batch()))
    after = updater.state()
    online = after["critics.parameters"][: 2 * 5 * 24].reshape(2, 5, 24)
    expected = 0.75 * before["target_critics.weights.0"] + 0.25 * online
    np.testing.assert_allclose(after["target_critics.weights.0"], expected, rtol=1e-5, atol=1e-7)


def test_each_part_has_its_own_vector_and_learning_rate() -> None:
    opened: list[tuple[int, OptimizerOptions]] = []

    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append((len(initial), options))
        return LocalVector(initial, options)

    config = SAC(hidden=(16,), critic_hidden=(24,), critic_learning_rate=0.2, temperature_learning_rate=0.3)
    config.make_updater(SPEC, CPU, 0, open_)
    assert [count for count, _ in opened] == [16 * 4 + 4 * 17, 2 * (24 * 6 + 25), 1]
    assert {options.kind for _, options in opened} == {"adam"}
    np.testing.assert_allclose([options.learning_rate for _, options in opened], [3e-4, 0.2, 0.3], rtol=1e-6)


def test_targets_catch_up_with_updates_by_other_workers() -> None:
    opened: list[LocalVector] = []

    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append(LocalVector(initial, options))
        return opened[-1]

    config = SAC(hidden=(16,), critic_hidden=(24,), target_update_period=2, target_update_rate=0.5)
    updater = config.make_updater(SPEC, CPU, 0, open_)
    before = updater.state()["target_critics.weights.0"]
    policy, critics, _ = opened
    critics.gradient.fill(1.0)
    policy.apply()
    for _ in range(5):  # as if others had: versions 2 and 4 have passed
        critics.apply()
    assert updater.pull() == 1
    online = critics.parameters[: 2 * 5 * 24].reshape(2, 5, 24)
    expected = 0.25 * before + 0.75 * online
    np.testing.assert_allclose(updater.state()["target_critics.weights.0"], expected, rtol=1e-5, atol=1e-7)


def test_updates_depend_only_on_the_seed() -> None:
    first, second, other = (make_updater(seed=seed) for seed in (4, 4, 5))
    for updater in (first, second, other):
        np.random.random()  # noqa: NPY002  # what others draw from NumPy's global generator does not matter
        for seed in range(3):
            updater.update(updater.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert not np.array_equal(ours["policy.parameters"], other.state()["policy.parameters"])


def test_restored_state_continues_bit_for_bit() -> None:
    first = make_updater(seed=0, target_update_period=4)
    for seed in range(5):
        first.update(first.transfer(make_batch(seed=seed)))
    second = make_updater(seed=1, target_update_period=4)
    saved = first.state()
    second.load(saved)
    restored = second.state()
    assert saved.keys() == restored.keys()
    assert all(np.array_equal(saved[name], restored[name]) for name in saved)
    for seed in range(5, 10):
        first.update(first.transfer(make_batch(seed=seed)))
        second.update(second.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert first.version == second.version == 10


@pytest.mark.parametrize(("first", "second"), [("native", "torch"), ("torch", "native")])
def test_checkpoints_move_between_engines(first: Engine, second: Engine) -> None:
    source, other = make_updater(seed=0, engine=first), make_updater(seed=1, engine=second)
    for seed in range(5):
        source.update(source.transfer(make_batch(seed=seed)))
    other.load(source.state())
    batch = make_batch(seed=9)
    ours, theirs = (updater.update(updater.transfer(batch)) for updater in (source, other))
    np.testing.assert_allclose(ours.priority, theirs.priority, atol=1e-5)
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)


@pytest.mark.parametrize("settings", [{"hidden": (8,)}, {"critic_hidden": (8,)}])
def test_state_of_another_network_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="fit these settings"):
        make_updater().load(make_updater(**settings).state())


@pytest.mark.parametrize("missing", ["random", "policy.parameters", "target_critics.weights.0", "updates"])
def test_incomplete_state_is_refused(missing: str) -> None:
    updater = make_updater()
    state = updater.state()
    del state[missing]
    with pytest.raises(CheckpointError):
        updater.load(state)


def test_weights_are_a_copy_of_the_policy() -> None:
    updater = make_updater()
    weights = updater.weights()
    assert {name: value.shape for name, value in weights.items()} == {
        "dense_0.weight": (16, 3),
        "dense_0.bias": (16,),
        "gaussian.weight": (4, 16),
        "gaussian.bias": (4,),
    }
    before = {name: value.copy() for name, value in weights.items()}
    updater.update(updater.transfer(make_batch()))
    assert all((weights[name] == before[name]).all() for name in weights)
    assert (updater.weights()["gaussian.weight"] != before["gaussian.weight"]).any()


def test_the_actors_graph_gives_means_and_log_deviations() -> None:
    updater = make_updater()
    observation = make_batch().observation
    graph = PolicyGraph(updater.architecture).serialize(updater.weights())
    output = Policy(graph, 1).output(observation)
    assert output.shape == (32, 4)
    np.testing.assert_allclose(output, updater.act(observation), atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EnvironmentSpec((3,), "float32", 2), "algorithm is sac, and the environment's actions are discrete"),
        (
            EnvironmentSpec((84, 84), "uint8", 2, stack=4, continuous=True),
            "network is nature; it must be mlp, which flattens images: the critics take flat observations",
        ),
    ],
)
def test_unsupported_environments_are_refused(spec: EnvironmentSpec, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SAC().make_updater(spec, CPU, 0)
    assert str(caught.value).startswith(message)
