"""D4PG's gradient step: against a twin written out by hand, one batch overfitted, state carried over."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from headrace.algorithms.config import Engine
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.d4pg.updater import D4PGUpdater
from headrace.algorithms.targets import project
from headrace.errors import CheckpointError, ConfigError
from headrace.networks.critic import Critic
from headrace.networks.layout import Layout
from headrace.types import Array, Batch, EnvironmentSpec

from .conftest import CPU, SPEC, make_batch

NEVER = 10**9


def make_updater(seed: int = 0, engine: Engine = "auto", **settings: Any) -> D4PGUpdater:
    small = {"hidden": (16,), "critic_hidden": (24, 16), "atoms": 11, "value_min": -3.0, "value_max": 3.0}
    updater = D4PG(**{**small, "batch_size": 32, **settings}).make_updater(SPEC, CPU, seed, engine=engine)
    assert isinstance(updater, D4PGUpdater)
    return updater


def layouts(updater: D4PGUpdater) -> dict[str, Layout]:
    config = updater._config
    critic = Critic(updater.architecture, updater.architecture.head.outputs, config.critic_hidden, config.atoms)
    return {"policy": updater.architecture.layout, "critic": critic.layout}


def named(updater: D4PGUpdater) -> dict[str, Tensor]:
    """All parameters by network and name."""
    state = updater.state()
    online = {
        f"{part}.{name}": value
        for part, layout in layouts(updater).items()
        for name, value in layout.views(state[f"{part}.parameters"]).items()
    }
    targets = {name: value for name, value in state.items() if name.startswith("target_")}
    return {name: torch.from_numpy(value) for name, value in (online | targets).items()}


def set_parameters(updater: D4PGUpdater, values: dict[str, Any]) -> None:
    """Sets these parameters of the online networks."""
    state = updater.state()
    for part, layout in layouts(updater).items():
        for name, view in layout.views(state[f"{part}.parameters"]).items():
            view[:] = values.get(f"{part}.{name}", view)
    updater.load(state)


def first_moment(updater: D4PGUpdater) -> Array:
    """Adam's first moment of the policy [P]: after one step a tenth of the gradient."""
    return updater.state()["policy.moments"][0]


class Twin:
    """The same update on plain tensors: one expression for each layer, Adam written out (Kingma and Ba 2015)."""

    def __init__(self, state: dict[str, Tensor], rates: dict[str, float], period: int) -> None:
        self.policy, self.critic = (self._part(state, part) for part in ("policy", "critic"))
        self.target_policy, self.target_critic = dict(self.policy), dict(self.critic)
        self.moments = {part: {} for part in rates}  # type: dict[str, dict[str, tuple[Tensor, Tensor]]]
        self.rates = rates
        self.period = period
        self.updates = 0
        self.support = torch.linspace(-3, 3, 11)

    @staticmethod
    def _part(state: dict[str, Tensor], part: str) -> dict[str, Tensor]:
        return {name.removeprefix(f"{part}."): v.clone() for name, v in state.items() if name.startswith(f"{part}.")}

    @staticmethod
    def act(p: dict[str, Tensor], s: Tensor) -> Tensor:
        h = (s @ p["dense_0.weight"].T + p["dense_0.bias"]).clamp(min=0)
        return torch.tanh(h @ p["action.weight"].T + p["action.bias"])

    @staticmethod
    def log_probabilities(p: dict[str, Tensor], s: Tensor, a: Tensor) -> Tensor:
        h = torch.cat([s, a], 1) @ p["first.weight"].T + p["first.bias"]
        centered = h - h.mean(1, keepdim=True)
        h = centered / (h.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt() * p["norm.weight"] + p["norm.bias"]
        h = functional.elu(torch.tanh(h) @ p["hidden.0.weight"].T + p["hidden.0.bias"])
        return (h @ p["head.weight"].T + p["head.bias"]).log_softmax(1)

    def update(self, batch: Batch) -> tuple[Tensor, float]:
        s, s_n, a, r, d, w = (torch.from_numpy(np.asarray(batch[i])) for i in (0, 1, 2, 3, 4, 5))
        p_n = self.log_probabilities(self.target_critic, s_n, self.act(self.target_policy, s_n)).exp()
        target = torch.from_numpy(project(*(x.numpy() for x in (self.support, p_n, r, d))))
        policy, critic = ({k: v.clone().requires_grad_() for k, v in p.items()} for p in (self.policy, self.critic))
        cross_entropy = -(target * self.log_probabilities(critic, s, a)).sum(1)
        loss = (w * cross_entropy).mean()
        critic_gradient = torch.autograd.grad(loss, list(critic.values()))
        value = self.log_probabilities(self.critic, s, self.act(policy, s)).exp() @ self.support
        policy_gradient = torch.autograd.grad(-value.mean(), list(policy.values()))
        self.updates += 1
        self._adam("critic", self.critic, dict(zip(critic, critic_gradient, strict=True)))
        self._adam("policy", self.policy, dict(zip(policy, policy_gradient, strict=True)))
        if self.updates % self.period == 0:
            self.target_policy, self.target_critic = dict(self.policy), dict(self.critic)
        entropy = -(target * target.clamp(min=1e-30).log()).sum(1)
        return (cross_entropy - entropy).detach(), loss.item()

    def _adam(self, part: str, parameters: dict[str, Tensor], gradient: dict[str, Tensor]) -> None:
        t = self.updates
        for name, g in gradient.items():
            m, v = self.moments[part].get(name, (torch.zeros_like(g), torch.zeros_like(g)))
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            self.moments[part][name] = m, v
            step = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
            parameters[name] = parameters[name] - self.rates[part] * step


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_three_updates_equal_a_twin_written_out(engine: Engine) -> None:
    updater = make_updater(engine=engine, learning_rate=2e-3, critic_learning_rate=5e-3, target_update_period=2)
    twin = Twin(named(updater), {"policy": 2e-3, "critic": 5e-3}, period=2)
    for seed in range(3):
        batch = make_batch(seed=seed)
        divergence, loss = twin.update(batch)
        update = updater.update(updater.transfer(batch))
        assert update.loss == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(update.priority, divergence, atol=1e-5)
    state = named(updater)
    for part in ("policy", "critic", "target_policy", "target_critic"):
        expected = {f"{part}.{name}": value for name, value in getattr(twin, part).items()}
        ours = {name: value for name, value in state.items() if name.startswith(f"{part}.")}
        torch.testing.assert_close(ours, expected, atol=2e-5, rtol=1e-4)


def test_critic_overfits_one_batch_down_to_its_target() -> None:
    updater = make_updater(learning_rate=1e-12, critic_learning_rate=1e-2, target_update_period=NEVER)
    batch = make_batch()._replace(weight=np.ones(32, np.float32))
    tensors = updater.transfer(batch)
    first = updater.update(tensors)
    for _ in range(1000):
        last = updater.update(tensors)
    assert last.loss == pytest.approx(first.loss - first.priority.mean() + last.priority.mean(), abs=1e-4)
    assert last.priority.mean() < first.priority.mean() / 100  # the loss is at the target's entropy, its least


def test_policy_finds_the_best_action_of_a_known_value() -> None:
    """Rewards fall with the distance from (0.5, -0.3), and every episode ends at once: Q is known."""
    updater = make_updater(learning_rate=1e-3, critic_learning_rate=3e-3, target_update_period=NEVER, atoms=31)
    for seed in range(1200):
        batch = make_batch(seed=seed)
        reward = 2 - 2 * np.square(batch.action - np.array([0.5, -0.3], np.float32)).sum(1)
        ended = batch._replace(reward=reward, discount=np.zeros(32, np.float32), weight=np.ones(32, np.float32))
        updater.update(updater.transfer(ended))
    action = updater.act(make_batch(seed=9999).observation)
    np.testing.assert_allclose(action.mean(0), [0.5, -0.3], atol=0.1)
    np.testing.assert_allclose(action, [[0.5, -0.3]] * 32, atol=0.3)


def test_policy_gradient_of_a_linear_case_by_hand() -> None:
    """A single policy layer a = tanh(w s + b), two atoms -1 and 1: the chain rule on paper.

    With logits (0, c a) the value is tanh(c a / 2), so dQ/da = c / 2 (1 - tanh(c a / 2)^2).
    """
    spec = EnvironmentSpec((1,), "float32", 1, continuous=True)
    config = D4PG(hidden=(), critic_hidden=(2,), atoms=2, value_min=-1.0, value_max=1.0, target_update_period=NEVER)
    updater = config.make_updater(spec, CPU, 0)
    state: dict[str, Any] = {"policy.action.weight": [[0.5]], "policy.action.bias": [0.1]}
    # LayerNorm of (h, -h) is (1, -1) sign(h) up to its epsilon: with a large epsilon's share, h / sqrt(h^2 + 1e-5)
    state |= {"critic.first.weight": [[0.0, 1e-3], [0.0, -1e-3]], "critic.first.bias": 0}
    state |= {"critic.head.weight": [[0.0, 0.0], [2.0, 0.0]], "critic.head.bias": 0}
    set_parameters(updater, state)
    s, a = 0.8, np.tanh(0.5 * 0.8 + 0.1)
    h = 1e-3 * a
    normal = h / np.sqrt(h**2 + 1e-5)
    c = 2 * np.tanh(normal)  # the difference of the logits
    dnormal_da = 1e-3 * 1e-5 / (h**2 + 1e-5) ** 1.5
    dq_da = (1 - np.tanh(c / 2) ** 2) / 2 * 2 * (1 - np.tanh(normal) ** 2) * dnormal_da
    expected = -dq_da * (1 - a**2)  # of the loss -Q, at tanh's input
    column = np.array([[s]], np.float32)
    one = np.ones(1, np.float32)
    batch = make_batch(1)._replace(
        observation=column, next_observation=column, action=column, reward=0 * one, discount=0 * one, weight=one
    )
    updater.update(updater.transfer(batch))
    assert first_moment(updater).tolist() == pytest.approx([0.1 * expected * s, 0.1 * expected], rel=1e-4)


def test_saturation_penalty_by_hand() -> None:
    """A critic blind to actions, a tanh that gets u = (1, -2) everywhere: 0.5 (u1^2 + u2^2) / 2 has gradient u / 2."""
    updater = make_updater(hidden=(), saturation_penalty=0.5)
    set_parameters(updater, {"policy.action.weight": 0, "policy.action.bias": [1.0, -2.0], "critic.head.weight": 0})
    batch = make_batch()
    updater.update(updater.transfer(batch))
    weight, bias = np.split(first_moment(updater), [6])
    np.testing.assert_allclose(bias, [0.05, -0.1], rtol=1e-5)
    np.testing.assert_allclose(weight.reshape(2, 3), np.outer([0.05, -0.1], batch.observation.mean(0)), rtol=1e-5)


def test_targets_move_only_at_their_period() -> None:
    updater = make_updater(target_update_period=3)
    tensors = updater.transfer(make_batch())
    lags = []
    for _ in range(6):
        updater.update(tensors)
        updater.pull()
        state = named(updater)
        lags.append(
            [
                not torch.equal(state[name], state[f"target_{name}"])
                for name in ("policy.action.weight", "critic.head.weight")
            ]
        )
    assert lags == [[True] * 2, [True] * 2, [False] * 2] * 2


def test_averaged_targets() -> None:
    updater = make_updater(target_update_period=1, target_update_rate=0.25)
    before = named(updater)
    updater.update(updater.transfer(make_batch()))
    updater.pull()
    after = named(updater)
    for name in ("policy.action.weight", "critic.norm.weight"):
        expected = 0.75 * before[f"target_{name}"] + 0.25 * after[name]
        torch.testing.assert_close(after[f"target_{name}"], expected)


def test_priorities_are_positive_where_the_critic_is_right() -> None:
    """Two atoms far from what is certain, and a critic as certain: the divergence is 0 or just below."""
    updater = make_updater(atoms=2)
    set_parameters(updater, {"critic.head.weight": 0, "critic.head.bias": [-100.0, 100.0]})
    batch = make_batch()._replace(reward=np.full(32, 50, np.float32), discount=np.zeros(32, np.float32))
    priority = updater.update(updater.transfer(batch)).priority
    assert priority.dtype == np.float32
    assert (priority == np.float32(1e-6)).all()


def test_updates_depend_only_on_the_seed() -> None:
    first, second, other = (make_updater(seed=seed) for seed in (4, 4, 5))
    for updater in (first, second, other):
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
    second.load(first.state())
    for seed in range(5, 10):
        first.update(first.transfer(make_batch(seed=seed)))
        second.update(second.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


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


def test_state_of_another_critic_is_refused() -> None:
    with pytest.raises(CheckpointError, match="does not fit these settings"):
        make_updater().load(make_updater(critic_hidden=(8,)).state())


def test_weights_are_a_copy_of_the_policy() -> None:
    updater = make_updater()
    weights = updater.weights()
    assert {name: value.shape for name, value in weights.items()} == {
        "dense_0.weight": (16, 3),
        "dense_0.bias": (16,),
        "action.weight": (2, 16),
        "action.bias": (2,),
    }
    before = {name: value.copy() for name, value in weights.items()}
    updater.update(updater.transfer(make_batch()))
    assert all((weights[name] == before[name]).all() for name in weights)
    assert (updater.weights()["action.weight"] != before["action.weight"]).any()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            EnvironmentSpec((3,), "float32", 2),
            "algorithm is d4pg, and the environment's actions are discrete: one of dqn, dyna-q, a3c, r2d2 is required",
        ),
        (
            EnvironmentSpec((84, 84), "uint8", 2, stack=4, continuous=True),
            "network is nature; it must be mlp, which flattens images: the critics take flat observations",
        ),
    ],
)
def test_unsupported_environments_are_refused(spec: EnvironmentSpec, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        D4PG().make_updater(spec, CPU, 0)
    assert str(caught.value) == message
