"""CrossQ's gradient step: against a twin written out, engines against each other, state carried over."""

from collections.abc import Sequence
from math import log, pi
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import OptimizerOptions
from headrace.algorithms.config import Engine
from headrace.algorithms.crossq.config import CrossQ
from headrace.algorithms.crossq.updater import CrossQUpdater
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.local import LocalVector
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.types import Array, Batch, EnvironmentSpec

from .conftest import CPU, SPEC, ended, make_batch, noise_of, split_parameters

VECTORS = ("critics", "policy", "temperature", "critic_statistics", "policy_statistics")


def make_updater(seed: int = 0, engine: Engine = "auto", **settings: Any) -> CrossQUpdater:
    small = {"hidden": (16,), "critic_hidden": (24, 16), "batch_size": 32, "renormalization_starts": 3}
    updater = CrossQ(**{**small, **settings}).make_updater(SPEC, CPU, seed, engine=engine)
    assert isinstance(updater, CrossQUpdater)
    return updater


class Normalized:
    """An MLP whose layers normalize their inputs, in float64: per layer W, b, gain, shift, and mean and variance."""

    def __init__(self, parameters: Array, statistics: Array, sizes: Sequence[tuple[int, int]]) -> None:
        shapes = [shape for i, o in sizes for shape in ((o, i), (o,), (i,), (i,))]
        self.parameters = list(split_parameters(parameters, shapes))
        self.statistics = [
            value.detach() for value in split_parameters(statistics, [(i,) for i, _ in sizes for _ in "mv"])
        ]

    def __call__(self, x: Tensor, momentum: float | None = None, *, renormalizes: bool = False) -> Tensor:
        """By the batch if there is a momentum, with which the running statistics move."""
        for layer in range(len(self.statistics) // 2):
            w, b, gain, shift = self.parameters[4 * layer : 4 * layer + 4]
            mean, variance = self.statistics[2 * layer : 2 * layer + 2]
            sigma = (variance + 1e-3).sqrt()
            if momentum is None:
                z = (x - mean) / sigma
            else:
                m, v = x.mean(0), x.var(0, unbiased=False)
                z = (x - m) / (v + 1e-3).sqrt()
                if renormalizes:
                    r = ((v + 1e-3).sqrt() / sigma).detach().clamp(1 / 3, 3)
                    z = z * r + ((m - mean) / sigma).detach().clamp(-5, 5)
                self.statistics[2 * layer] = momentum * mean + (1 - momentum) * m.detach()
                self.statistics[2 * layer + 1] = momentum * variance + (1 - momentum) * v.detach()
            x = (gain * z + shift) @ w.T + b
            x = x.clamp(min=0) if layer + 1 < len(self.statistics) // 2 else x
        return x


class Twin:
    """The same update on float64 tensors, with torch.optim.Adam."""

    def __init__(self, state: dict[str, Array], rates: tuple[float, float, float], momentum: float) -> None:
        self.policy = Normalized(state["policy.parameters"], state["policy_statistics.parameters"], [(3, 16), (16, 4)])
        halves = zip(
            *(np.split(state[f"{part}.parameters"], 2) for part in ("critics", "critic_statistics")), strict=True
        )
        self.critics = [Normalized(*half, [(5, 24), (24, 16), (16, 1)]) for half in halves]
        self.log_temperature = torch.from_numpy(state["temperature.parameters"]).double().requires_grad_()
        self.parts = (
            [parameter for critic in self.critics for parameter in critic.parameters],
            self.policy.parameters,
            [self.log_temperature],
        )
        self.adams = [
            torch.optim.Adam(part, rate, betas=(0.5, 0.999), eps=1e-3)
            for part, rate in zip(self.parts, rates, strict=True)
        ]
        self.random, self.momentum, self.updates = noise_of(state), momentum, 0

    def sample(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, sigma = output[:, :2], output[:, 2:].clamp(-20, 2).exp()
        a = torch.tanh(mean + sigma * noise)
        normal = -0.5 * noise.square() - sigma.log() - 0.5 * log(2 * pi)
        return a, (normal - (1 - a.square()).log()).sum(1)

    def update(self, batch: Batch, period: int, starts: int) -> tuple[Tensor, float]:
        s, s_n, a, r, d, w = (torch.from_numpy(batch[i]).double() for i in range(6))
        noise, next_noise = torch.from_numpy(self.random.standard_normal((2, *a.shape), np.float32)).double()
        alpha = self.log_temperature.detach().exp()
        a_n, log_p_n = (value.detach() for value in self.sample(self.policy(s_n), next_noise))
        joint = torch.cat((torch.cat((s, s_n)), torch.cat((a, a_n))), 1)
        before = [list(critic.statistics) for critic in self.critics]
        renormalizes = self.updates >= starts
        values = [critic(joint, self.momentum, renormalizes=renormalizes)[:, 0] for critic in self.critics]
        y = r + d * (torch.minimum(*(value[len(s) :].detach() for value in values)) - alpha * log_p_n)
        errors = [y - value[: len(s)] for value in values]
        loss = sum((0.5 * w * error**2).mean() for error in errors)
        assert isinstance(loss, Tensor)
        gradients = [torch.autograd.grad(loss, self.parts[0])]
        self.updates += 1
        if self.updates % period == 0:
            after = [critic.statistics for critic in self.critics]
            for critic, earlier in zip(self.critics, before, strict=True):
                critic.statistics = earlier
            ours, log_p = self.sample(
                self.policy(s, self.momentum, renormalizes=self.updates // period > starts), noise
            )
            value = torch.minimum(*(critic(torch.cat((s, ours), 1))[:, 0] for critic in self.critics))
            gradients.append(torch.autograd.grad((alpha * log_p - value).mean(), self.parts[1]))
            gradients.append((-(log_p.detach().mean(0, keepdim=True) - 2.0),))
            for critic, later in zip(self.critics, after, strict=True):
                critic.statistics = later
        for adam, part in zip(self.adams, gradients, strict=False):
            for parameter, gradient in zip(adam.param_groups[0]["params"], part, strict=True):
                parameter.grad = gradient
            adam.step()
        return (errors[0].abs() + errors[1].abs()).detach() / 2, loss.item()

    def state(self) -> dict[str, Tensor]:
        return {
            **{
                name: torch.cat([value.detach().flatten() for value in part])
                for name, part in zip(VECTORS, self.parts, strict=False)
            },
            "critic_statistics": torch.cat([value for critic in self.critics for value in critic.statistics]),
            "policy_statistics": torch.cat(self.policy.statistics),
        }


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_seven_updates_equal_a_twin_written_out(engine: Engine) -> None:
    """Of which the policy has three; critics and policy renormalize from their third on.

    With a large epsilon: a unit that is always active has a bias that the next normalization removes, and Adam would
    make a whole step of the rounding error that is its gradient.
    """

    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        if options.kind == "adam":
            options = OptimizerOptions("adam", learning_rate=options.learning_rate, beta1=0.5, epsilon=1e-3)
        return LocalVector(initial, options)

    rates = (5e-3, 2e-3, 1e-2)
    config = CrossQ(
        hidden=(16,),
        critic_hidden=(24, 16),
        critic_learning_rate=rates[0],
        learning_rate=rates[1],
        temperature_learning_rate=rates[2],
        policy_update_period=2,
        statistics_momentum=0.9,
        renormalization_starts=2,
    )
    updater = config.make_updater(SPEC, CPU, 0, open_, engine)
    twin = Twin(updater.state(), rates, 0.9)
    for seed in range(7):
        batch = make_batch(seed=seed)
        priority, loss = twin.update(batch, period=2, starts=2)
        update = updater.update(updater.transfer(batch))
        assert update.loss == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(update.priority, priority, atol=2e-5)
    state = updater.state()
    assert [int(state[f"{name}.steps"]) for name in VECTORS] == [7, 3, 3, 7, 3]
    for name, expected in twin.state().items():
        np.testing.assert_allclose(state[f"{name}.parameters"], expected, atol=2e-5, rtol=1e-4)


def test_of_several_sets_each_has_its_first_updates_without_renormalization() -> None:
    class OneOfTwo(LocalVector):
        parameter_sets = 2

    def last(vector: type[LocalVector], starts: int) -> dict[str, NDArray[np.float32]]:
        config = CrossQ(hidden=(16,), critic_hidden=(24, 16), policy_update_period=1, renormalization_starts=starts)
        updater = config.make_updater(SPEC, CPU, 0, vector)
        for seed in range(6):
            updater.update(updater.transfer(make_batch(seed=seed)))
        return updater.state()

    found, expected, sooner = last(OneOfTwo, 2), last(LocalVector, 4), last(LocalVector, 2)
    for name in VECTORS:
        np.testing.assert_array_equal(found[f"{name}.parameters"], expected[f"{name}.parameters"])
        assert (found[f"{name}.parameters"] != sooner[f"{name}.parameters"]).any()


@pytest.mark.slow
def test_engines_stay_together_over_a_thousand_updates_with_sgd() -> None:
    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        return LocalVector(initial, options if options.kind == "sgd" else OptimizerOptions("sgd", learning_rate=3e-3))

    config = CrossQ(hidden=(16,), critic_hidden=(24, 16), batch_size=32, renormalization_starts=300)
    first, second = (config.make_updater(SPEC, CPU, 0, open_, engine) for engine in ("native", "torch"))
    before = first.state()
    for seed in range(1000):
        batch = make_batch(seed=seed % 50)
        for updater in (first, second):
            updater.update(updater.transfer(batch))
    ours, theirs = first.state(), second.state()
    for name in VECTORS:
        found, expected = (state[f"{name}.parameters"] for state in (ours, theirs))
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
        assert np.abs(expected - before[f"{name}.parameters"]).max() > 0.05


def test_critics_overfit_one_batch() -> None:
    """Where every episode ends, the target is the reward, and the critics learn it exactly."""
    updater = make_updater(learning_rate=1e-12, critic_learning_rate=1e-2)
    batch = make_batch()._replace(discount=np.zeros(32, np.float32))
    tensors = updater.transfer(batch)
    first = updater.update(tensors)
    last = min((updater.update(tensors) for _ in range(800)), key=lambda update: update.loss)
    assert last.loss < first.loss / 1000


def test_policy_finds_the_best_action_of_a_known_value() -> None:
    updater = make_updater(
        learning_rate=5e-3,
        critic_learning_rate=1e-2,
        initial_temperature=0.01,
        temperature_learning_rate=1e-12,
        policy_update_period=1,
    )
    for seed in range(500):
        updater.update(updater.transfer(ended(seed)))
    action = np.tanh(updater.act(make_batch(seed=9999).observation)[:, :2])
    np.testing.assert_allclose(action.mean(0), [0.5, -0.3], atol=0.1)
    np.testing.assert_allclose(action, [[0.5, -0.3]] * 32, atol=0.3)


def test_policy_and_temperature_are_updated_once_per_period() -> None:
    updater = make_updater(policy_update_period=3)
    versions = []
    for seed in range(7):
        updater.update(updater.transfer(make_batch(seed=seed)))
        state = updater.state()
        versions.append([int(state[f"{name}.steps"]) for name in VECTORS])
    assert versions == [[n, n // 3, n // 3, n, n // 3] for n in range(1, 8)]
    assert updater.version == 7


def test_importance_weights_apply_to_the_critics_only() -> None:
    plain, weighted = (make_updater(policy_update_period=1) for _ in range(2))
    batch = make_batch()._replace(weight=np.ones(32, np.float32))
    for updater, factor in ((plain, 1.0), (weighted, 0.5)):
        updater.update(updater.transfer(batch._replace(weight=factor * batch.weight)))
    first, second = plain.state(), weighted.state()
    for part, share in (("policy", 1.0), ("critics", 0.5), ("temperature", 1.0)):
        np.testing.assert_allclose(
            second[f"{part}.moments"][0], share * first[f"{part}.moments"][0], rtol=1e-4, atol=1e-8
        )
    for part in ("critic_statistics", "policy_statistics"):
        np.testing.assert_array_equal(first[f"{part}.parameters"], second[f"{part}.parameters"])


def test_each_part_has_its_own_vector_and_learning_rate() -> None:
    opened: list[tuple[int, OptimizerOptions]] = []

    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append((len(initial), options))
        return LocalVector(initial, options)

    config = CrossQ(
        hidden=(16,), critic_hidden=(24,), critic_learning_rate=0.2, temperature_learning_rate=0.3, adam_beta1=0.25
    )
    config.make_updater(SPEC, CPU, 0, open_)
    norms = [2 * 2 * (5 + 24), 2 * (3 + 16)]
    assert [count for count, _ in opened] == [
        2 * (24 * 6 + 25) + norms[0],
        16 * 4 + 4 * 17 + norms[1],
        1,
        *norms,
    ]
    assert [options.kind for _, options in opened] == ["adam"] * 3 + ["sgd"] * 2
    rates = [options.learning_rate for _, options in opened]
    np.testing.assert_allclose(rates, [0.2, 1e-3, 0.3, 0.01, 0.01], rtol=1e-5)
    assert "0.25" in opened[0][1].encode()


def test_updates_depend_only_on_the_seed() -> None:
    first, second, other = (make_updater(seed=seed) for seed in (4, 4, 5))
    for updater in (first, second, other):
        for seed in range(3):
            updater.update(updater.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert not np.array_equal(ours["policy.parameters"], other.state()["policy.parameters"])


def test_restored_state_continues_bit_for_bit() -> None:
    first, second = (make_updater(seed=seed, policy_update_period=2) for seed in (0, 1))
    for seed in range(5):
        first.update(first.transfer(make_batch(seed=seed)))
    saved = first.state()
    second.load(saved)
    for seed in range(5, 10):
        first.update(first.transfer(make_batch(seed=seed)))
        second.update(second.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
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
    np.testing.assert_allclose(ours.priority, theirs.priority, atol=1e-4)
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)


@pytest.mark.parametrize("missing", ["random", "policy_statistics.parameters", "critics.moments", "updates"])
def test_incomplete_state_is_refused(missing: str) -> None:
    updater = make_updater()
    state = updater.state()
    del state[missing]
    with pytest.raises(CheckpointError):
        updater.load(state)


def test_weights_are_those_of_a_plain_policy_that_acts_the_same() -> None:
    updater = make_updater(policy_update_period=1)
    for seed in range(30):
        updater.update(updater.transfer(make_batch(seed=seed)))
    weights = updater.weights()
    assert {name: value.shape for name, value in weights.items()} == {
        "dense_0.weight": (16, 3),
        "dense_0.bias": (16,),
        "gaussian.weight": (4, 16),
        "gaussian.bias": (4,),
    }
    observation = make_batch(seed=99).observation
    output = Policy(PolicyGraph(updater.architecture).serialize(weights), 1).output(observation)
    np.testing.assert_allclose(output, updater.act(observation), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EnvironmentSpec((3,), "float32", 2), "algorithm is crossq, and the environment's actions are discrete"),
        (
            EnvironmentSpec((84, 84), "uint8", 2, stack=4, continuous=True),
            "network is nature; it must be mlp, which flattens images: the critics take flat observations",
        ),
    ],
)
def test_unsupported_environments_are_refused(spec: EnvironmentSpec, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CrossQ().make_updater(spec, CPU, 0)
    assert str(caught.value).startswith(message)
