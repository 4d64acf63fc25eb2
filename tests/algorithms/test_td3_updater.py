"""TD3's gradient step: against a twin with torch's Adam, one batch overfitted, the delay, state carried over."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import OptimizerOptions
from headrace.algorithms.config import Engine
from headrace.algorithms.td3.config import TD3
from headrace.algorithms.td3.updater import TD3Updater
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.local import LocalVector
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.types import Array, Batch, EnvironmentSpec

from .conftest import CPU, SPEC, ended, make_batch, noise_of, split_parameters, twin_value

NEVER = 10**9
POLICY = [(16, 3), (16,), (2, 16), (2,)]
CRITICS = [(2, 5, 24), (2, 24, 16), (2, 16, 1), (2, 1, 24), (2, 1, 16), (2, 1, 1)]


def settings_of(**settings: Any) -> TD3:
    return TD3(**{"hidden": (16,), "critic_hidden": (24, 16), "batch_size": 32, **settings})


def make_updater(seed: int = 0, engine: Engine = "auto", **settings: Any) -> TD3Updater:
    updater = settings_of(**settings).make_updater(SPEC, CPU, seed, engine=engine)
    assert isinstance(updater, TD3Updater)
    return updater


def shared_updater(**settings: Any) -> tuple[TD3Updater, LocalVector, LocalVector]:
    """An updater and its vectors, the critics' and the policy's, to which a test applies gradients as others would."""
    opened: list[LocalVector] = []

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append(LocalVector(initial, options))
        return opened[-1]

    updater = settings_of(**settings).make_updater(SPEC, CPU, 0, open_vector)
    critics, policy = opened
    return updater, critics, policy


class Twin:
    """The same update on plain float64 tensors, one expression for each layer, with torch.optim.Adam."""

    def __init__(self, state: dict[str, Array], rates: tuple[float, float], period: int) -> None:
        self.policy = list(split_parameters(state["policy.parameters"], POLICY))
        self.critics = list(split_parameters(state["critics.parameters"], CRITICS))
        self.targets = [[value.detach().clone() for value in part] for part in (self.policy, self.critics)]
        self.adams = [
            torch.optim.Adam(part, rate) for part, rate in zip((self.policy, self.critics), rates, strict=True)
        ]
        self.random = noise_of(state)
        self.period = period
        self.updates = 0

    @staticmethod
    def act(p: list[Tensor], s: Tensor) -> Tensor:
        return torch.tanh((s @ p[0].T + p[1]).clamp(min=0) @ p[2].T + p[3])

    def update(self, batch: Batch) -> tuple[Tensor, float]:
        s, s_n, a, r, d, w = (torch.from_numpy(batch[i]).double() for i in range(6))
        target_policy, target_critics = self.targets
        noise = torch.from_numpy(0.3 * self.random.standard_normal(a.shape, np.float32)).double().clamp(-0.4, 0.4)
        with torch.no_grad():
            a_n = (self.act(target_policy, s_n) + noise).clamp(-1, 1)
            y = r + d * torch.minimum(twin_value(target_critics, 0, s_n, a_n), twin_value(target_critics, 1, s_n, a_n))
        errors = [y - twin_value(self.critics, member, s, a) for member in (0, 1)]
        loss = sum((0.5 * w * error**2).mean() for error in errors)
        assert isinstance(loss, Tensor)
        critic_gradients = torch.autograd.grad(loss, self.critics)
        policy_loss = -twin_value(self.critics, 0, s, self.act(self.policy, s)).mean()
        policy_gradients = torch.autograd.grad(policy_loss, self.policy)
        self.updates += 1
        due = self.updates % self.period == 0
        self._step(1, critic_gradients)
        if due:
            self._step(0, policy_gradients)
            for target, online in zip(self.targets, (self.policy, self.critics), strict=True):
                for slow, fast in zip(target, online, strict=True):
                    slow.lerp_(fast.detach(), 0.1)
        return (errors[0].abs() + errors[1].abs()).detach() / 2, loss.item()

    def _step(self, part: int, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(self.adams[part].param_groups[0]["params"], gradients, strict=True):
            parameter.grad = gradient
        self.adams[part].step()


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_five_updates_equal_a_twin_written_out(engine: Engine) -> None:
    updater = make_updater(
        engine=engine,
        learning_rate=2e-3,
        critic_learning_rate=5e-3,
        target_update_rate=0.1,
        target_noise=0.3,
        target_noise_clip=0.4,
    )
    twin = Twin(updater.state(), (2e-3, 5e-3), period=2)
    for seed in range(5):
        batch = make_batch(seed=seed)
        priority, loss = twin.update(batch)
        update = updater.update(updater.transfer(batch))
        assert update.loss == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(update.priority, priority, atol=1e-5)
    state = updater.state()
    for part, parameters in (("policy", twin.policy), ("critics", twin.critics)):
        flat = torch.cat([value.detach().flatten() for value in parameters])
        np.testing.assert_allclose(state[f"{part}.parameters"], flat, atol=2e-5, rtol=1e-4)
    target_policy, target_critics = twin.targets
    names = ("dense_0.weight", "dense_0.bias", "action.weight", "action.bias")
    for name, expected in zip(names, target_policy, strict=True):
        np.testing.assert_allclose(state[f"target_policy.{name}"], expected, atol=2e-5, rtol=1e-4)
    for index in range(3):
        for name, expected in (("weights", target_critics[index]), ("biases", target_critics[3 + index])):
            np.testing.assert_allclose(state[f"target_critics.{name}.{index}"], expected, atol=2e-5, rtol=1e-4)


def test_target_of_a_known_case_by_hand() -> None:
    """A target policy that acts 0.5 in both dimensions, and target critics 2 + a_1 and 4 - a_2 for actions above -9.

    The noise has no limit that matters: the smoothed action is 0.5 + z / 5. The critics' single hidden layer is the
    action plus 9, and their online networks are 0, so that the TD error is the target.
    """
    updater = make_updater(critic_hidden=(1,), target_noise_clip=9.0)
    state = updater.state()
    for name in state:
        if name.startswith(("target_", "critics.parameters")):
            state[name][:] = 0
    state["target_policy.action.bias"][:] = np.arctanh(0.5)
    state["target_critics.weights.0"][0, 3] = 1  # the first twin reads a_1, the second a_2, after 3 observations
    state["target_critics.weights.0"][1, 4] = 1
    state["target_critics.biases.0"][:] = 9
    state["target_critics.weights.1"][:] = np.reshape([1, -1], (2, 1, 1))
    state["target_critics.biases.1"][:] = np.reshape([2 - 9, 4 + 9], (2, 1, 1))
    updater.load(state)
    a_1, a_2 = (0.5 + 0.2 * noise_of(state).standard_normal(2, np.float32)).clip(-1, 1)
    one = np.ones(1, np.float32)
    batch = make_batch(1)._replace(reward=3 * one, discount=0.5 * one, weight=one)
    update = updater.update(updater.transfer(batch))
    target = 3 + 0.5 * min(2 + a_1, 4 - a_2)
    assert update.priority[0] == pytest.approx(target, rel=1e-5)
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
    updater = make_updater(learning_rate=3e-3, critic_learning_rate=3e-3)
    for seed in range(1500):
        updater.update(updater.transfer(ended(seed)))
    action = updater.act(make_batch(seed=9999).observation)
    # Small critics are a coarse surface, at whose highest point the policy ends: with ten seeds within 0.21.
    np.testing.assert_allclose(action, [[0.5, -0.3]] * 32, atol=0.25)


@pytest.mark.parametrize("flat", [0, 1])
def test_the_policy_climbs_the_first_critic_only(flat: int) -> None:
    """A critic whose head has weights of 0 has no slope. Adam's first moment is a tenth of the first gradient."""
    updater = make_updater(policy_update_period=1)
    state = updater.state()
    state["critics.parameters"][2 * 5 * 24 + 2 * 24 * 16 :][: 2 * 16].reshape(2, 16)[flat] = 0
    updater.load(state)
    updater.update(updater.transfer(make_batch()))
    assert bool((updater.state()["policy.moments"][0] == 0).all()) == (flat == 0)


@pytest.mark.parametrize("period", [1, 2, 3])
def test_the_policy_is_updated_once_per_period(period: int) -> None:
    updater = make_updater(policy_update_period=period)
    tensors = updater.transfer(make_batch())
    changes = []
    for _ in range(6):
        before = updater.weights()["action.weight"].copy()
        updater.update(tensors)
        changes.append(bool((updater.weights()["action.weight"] != before).any()))
    assert changes == [update % period == 0 for update in range(1, 7)]
    assert updater.version == 6


def test_workers_in_step_keep_the_period_together() -> None:
    """Another worker's update follows each of this one's, which therefore sees even versions only."""
    updater, critics, policy = shared_updater()
    tensors = updater.transfer(make_batch())
    for _ in range(10):
        updater.update(tensors)
        critics.apply()
    assert critics.version == 20
    assert policy.version == 9  # due for the tenth time in the next update


def test_updates_of_the_policy_by_other_workers_count() -> None:
    updater, critics, policy = shared_updater()
    tensors = updater.transfer(make_batch())
    for _ in range(3):
        policy.apply()
    versions = []
    for _ in range(8):
        updater.update(tensors)
        versions.append(policy.version)
    assert versions == [3, 3, 3, 3, 3, 3, 3, 4]
    assert critics.version == updater.version == 8


def test_averaged_targets() -> None:
    updater = make_updater(target_update_rate=0.25)
    before = updater.state()
    updater.update(updater.transfer(make_batch()))
    for name in ("target_critics.weights.0", "target_policy.action.weight"):
        np.testing.assert_array_equal(updater.state()[name], before[name])
    updater.update(updater.transfer(make_batch()))
    after = updater.state()
    online = {
        "target_critics.weights.0": after["critics.parameters"][: 2 * 5 * 24].reshape(2, 5, 24),
        "target_policy.action.weight": after["policy.parameters"][-34:-2].reshape(2, 16),
    }
    for name, value in online.items():
        assert not np.array_equal(value, before[name])
        np.testing.assert_allclose(after[name], 0.75 * before[name] + 0.25 * value, rtol=1e-5, atol=1e-7)


def test_targets_catch_up_with_updates_by_other_workers() -> None:
    updater, critics, policy = shared_updater(target_update_rate=0.5)
    before = updater.state()
    critics.gradient.fill(1.0)
    policy.gradient.fill(1.0)
    policy.apply()
    for _ in range(5):  # as if others had: versions 2 and 4 have passed
        critics.apply()
    assert updater.pull() == 5
    after = updater.state()
    for name, online in (
        ("target_critics.weights.0", critics.parameters[: 2 * 5 * 24].reshape(2, 5, 24)),
        ("target_policy.action.bias", policy.parameters[-2:]),
    ):
        np.testing.assert_allclose(after[name], 0.25 * before[name] + 0.75 * online, rtol=1e-5, atol=1e-7)


def test_importance_weights_apply_to_the_critics_only() -> None:
    plain, weighted = (make_updater(policy_update_period=1) for _ in range(2))
    batch = make_batch()._replace(weight=np.ones(32, np.float32))
    for updater, factor in ((plain, 1.0), (weighted, 0.5)):
        updater.update(updater.transfer(batch._replace(weight=factor * batch.weight)))
    first, second = plain.state(), weighted.state()
    for part, share in (("policy", 1.0), ("critics", 0.5)):
        np.testing.assert_allclose(
            second[f"{part}.moments"][0], share * first[f"{part}.moments"][0], rtol=1e-5, atol=1e-9
        )


def test_the_critics_vector_comes_first_and_each_part_has_its_own_learning_rate() -> None:
    opened: list[tuple[int, OptimizerOptions]] = []

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append((len(initial), options))
        return LocalVector(initial, options)

    settings_of(critic_hidden=(24,), critic_learning_rate=0.2).make_updater(SPEC, CPU, 0, open_vector)
    assert [count for count, _ in opened] == [2 * (24 * 6 + 25), 16 * 4 + 2 * 17]
    assert {options.kind for _, options in opened} == {"adam"}
    np.testing.assert_allclose([options.learning_rate for _, options in opened], [0.2, 3e-4], rtol=1e-6)


def test_updates_depend_only_on_the_seed() -> None:
    first, second, other = (make_updater(seed=seed) for seed in (4, 4, 5))
    for updater in (first, second, other):
        for seed in range(3):
            updater.update(updater.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert not np.array_equal(ours["policy.parameters"], other.state()["policy.parameters"])


@pytest.mark.parametrize("updates", [4, 5])
def test_restored_state_continues_bit_for_bit(updates: int) -> None:
    """Also between two updates of the policy."""
    first = make_updater(seed=0)
    for seed in range(updates):
        first.update(first.transfer(make_batch(seed=seed)))
    second = make_updater(seed=1)
    saved = first.state()
    second.load(saved)
    restored = second.state()
    assert saved.keys() == restored.keys()
    assert all(np.array_equal(saved[name], restored[name]) for name in saved)
    for seed in range(updates, 10):
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


@pytest.mark.parametrize("missing", ["random", "policy.parameters", "target_policy.action.bias", "updates"])
def test_incomplete_state_is_refused(missing: str) -> None:
    updater = make_updater()
    state = updater.state()
    del state[missing]
    with pytest.raises(CheckpointError):
        updater.load(state)


def test_the_actors_graph_gives_the_policy_s_actions() -> None:
    updater = make_updater()
    observation = make_batch().observation
    graph = PolicyGraph(updater.architecture).serialize(updater.weights())
    np.testing.assert_allclose(Policy(graph, 1).output(observation), updater.act(observation), atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EnvironmentSpec((3,), "float32", 2), "algorithm is td3, and the environment's actions are discrete"),
        (EnvironmentSpec((84, 84), "uint8", 2, stack=4, continuous=True), "network is nature; it must be mlp"),
    ],
)
def test_unsupported_environments_are_refused(spec: EnvironmentSpec, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TD3().make_updater(spec, CPU, 0)
    assert str(caught.value).startswith(message)
