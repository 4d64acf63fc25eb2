"""DQN's gradient step: targets by hand, one batch overfitted, state carried over."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace import DQN
from headrace._native import OptimizerOptions, SharedModel
from headrace.algorithms.config import Engine, OptimizerName
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.local import LocalVector
from headrace.gradients.shared import AveragedVector
from headrace.networks.torch_modules import PolicyModule
from headrace.types import Batch, EnvironmentSpec

SPEC = EnvironmentSpec((3,), "float32", 4)
CPU = "cpu"


def make_batch(size: int = 32, seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    return Batch(
        observation=random.standard_normal((size, 3)).astype(np.float32),
        next_observation=random.standard_normal((size, 3)).astype(np.float32),
        action=random.integers(0, 4, size),
        reward=random.standard_normal(size).astype(np.float32),
        discount=np.where(random.random(size) < 0.2, 0, 0.9).astype(np.float32),
        weight=random.uniform(0.1, 1, size).astype(np.float32),
        probability=np.full(size, 1 / size, np.float32),
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.ones(size, np.uint64),
    )


def make_updater(seed: int = 0, engine: Engine = "auto", **settings: Any) -> DQNUpdater:
    config = DQN(**{"hidden": (32,), "batch_size": 32} | settings)
    updater = config.make_updater(SPEC, CPU, seed, engine=engine)
    assert isinstance(updater, DQNUpdater)
    return updater


@pytest.fixture(params=["native", "torch"])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


@pytest.mark.parametrize("double", [False, True])
def test_priorities_and_loss_equal_a_numpy_twin(engine: Engine, double: bool) -> None:
    updater = make_updater(engine=engine, double=double, max_gradient_norm=0.0, target_update_period=10**9)
    for seed in range(3):  # now online and target differ
        updater.update(updater.transfer(make_batch(seed=seed)))
    batch = make_batch(seed=9)
    rows = np.arange(32)
    online_next = updater.act(batch.next_observation)
    target_next = make_updater(engine=engine).act(batch.next_observation)  # never moved
    chosen = online_next.argmax(1) if double else target_next.argmax(1)
    target = batch.reward + batch.discount * target_next[rows, chosen]
    error = target - updater.act(batch.observation)[rows, batch.action]
    huber = np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5)
    update = updater.update(updater.transfer(batch))
    np.testing.assert_allclose(update.priority, np.abs(error), atol=1e-5)
    assert update.loss == pytest.approx((batch.weight * huber).mean(), rel=1e-4)


def test_overfits_one_batch(engine: Engine) -> None:
    updater = make_updater(engine=engine, learning_rate=3e-3, target_update_period=10**9)
    tensors = updater.transfer(make_batch())
    first = updater.update(tensors).loss
    for _ in range(500):
        last = updater.update(tensors)
    assert last.loss < first / 100


def test_target_is_copied_every_period(engine: Engine) -> None:
    updater = make_updater(engine=engine, target_update_period=3)
    assert target_lags(updater) == [True, True, False, True, True, False]


def test_targets_of_averaged_parameters_are_copied_after_a_period_of_each_worker() -> None:
    """AD-PSGD: of two workers' six updates in sum, each has three on average."""

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> AveragedVector:
        model = SharedModel.create(initial, options, mode="ad-psgd", workers=2, own_optimizer_state=True)
        return AveragedVector(model, 0, 1, seed=0)

    config = DQN(hidden=(32,), batch_size=32, target_update_period=3)
    updater = config.make_updater(SPEC, CPU, 0, open_vector)
    assert target_lags(updater) == [True] * 5 + [False]


def target_lags(updater: DQNUpdater) -> list[bool]:
    """Whether the target differs from the network, after each of six updates."""
    tensors, lags = updater.transfer(make_batch()), []
    for _ in range(6):
        updater.update(tensors)
        state, online = updater.state(), updater.weights()
        lags.append(any(not np.array_equal(online[name], state[f"target.{name}"]) for name in online))
    return lags


def test_polyak_average(engine: Engine) -> None:
    updater = make_updater(engine=engine, target_update_period=1, target_update_rate=0.25)
    before = updater.state()
    updater.update(updater.transfer(make_batch()))
    after = updater.state()
    expected = 0.75 * before["target.q.weight"] + 0.25 * updater.weights()["q.weight"]
    np.testing.assert_allclose(after["target.q.weight"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("optimizer", "beta1"),
    [
        ("adam", 0.9),
        ("adam", 0.0),
        *((name, 0.9) for name in ("rmsprop", "centered-rmsprop", "adagrad", "momentum", "sgd")),
    ],
)
def test_three_updates_equal_those_of_torch_s_optimizer(engine: Engine, optimizer: OptimizerName, beta1: float) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "adam_beta1": beta1}
    updater = make_updater(engine=engine, **settings, target_update_period=10**9, max_gradient_norm=0.1)
    online, target = (PolicyModule(updater.architecture) for _ in range(2))
    for network in (online, target):
        network.load_state_dict({name: torch.from_numpy(value) for name, value in updater.weights().items()})
    rate, decay, epsilon = 1e-3, 0.95, 1e-8
    torch_optimizers: dict[str, torch.optim.Optimizer] = {
        "adam": torch.optim.Adam(online.parameters(), rate, (beta1, 0.999), epsilon),
        "rmsprop": torch.optim.RMSprop(online.parameters(), rate, decay, epsilon),
        "centered-rmsprop": torch.optim.RMSprop(online.parameters(), rate, decay, epsilon, centered=True),
        "adagrad": torch.optim.Adagrad(online.parameters(), rate, eps=epsilon),
        "momentum": torch.optim.SGD(online.parameters(), rate, decay),
        "sgd": torch.optim.SGD(online.parameters(), rate),
    }
    twin = torch_optimizers[optimizer]
    for seed in range(3):
        batch = make_batch(seed=seed)
        fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)
        observation, following, action, reward, discount, weight = map(torch.from_numpy, fields)
        with torch.no_grad():
            chosen = online(following).argmax(1, keepdim=True)
            goal = reward + discount * target(following).gather(1, chosen)[:, 0]
        q = online(observation).gather(1, action[:, None])[:, 0]
        loss = (weight * torch.nn.functional.huber_loss(q, goal, reduction="none")).mean()
        twin.zero_grad()
        loss.backward()
        assert torch.nn.utils.clip_grad_norm_(online.parameters(), 0.1) > 0.1
        twin.step()
        updater.update(updater.transfer(batch))
    for name, value in updater.weights().items():
        np.testing.assert_allclose(value, online.state_dict()[name].numpy(), atol=2e-6, err_msg=name)


def test_target_catches_up_with_updates_by_other_workers() -> None:
    opened: list[LocalVector] = []

    def open_(initial: NDArray[np.float32], options: OptimizerOptions) -> LocalVector:
        opened.append(LocalVector(initial, OptimizerOptions("sgd", learning_rate=0.1, decay=0.0, epsilon=1e-8)))
        return opened[0]

    settings = {"target_update_period": 2, "target_update_rate": 0.5}
    updater = DQN(hidden=(32,), **settings).make_updater(SPEC, CPU, 0, open_)  # type: ignore[arg-type]
    before = updater.state()["target.q.weight"]
    opened[0].gradient.fill(1.0)
    for _ in range(5):  # as if others had: versions 2 and 4 have passed
        opened[0].apply()
    expected = 0.25 * before + 0.75 * updater.weights()["q.weight"]
    np.testing.assert_allclose(updater.state()["target.q.weight"], expected, rtol=1e-5, atol=1e-7)


def test_vectors_of_another_size_are_refused() -> None:
    options = OptimizerOptions("sgd", learning_rate=0.1, decay=0.0, epsilon=1e-8)
    with pytest.raises(CheckpointError, match="has 7 parameters, and these settings make 260"):
        DQN(hidden=(32,)).make_updater(SPEC, CPU, 0, lambda *_: LocalVector(np.zeros(7, np.float32), options))


def test_restored_state_continues_bit_for_bit(engine: Engine) -> None:
    first = make_updater(seed=0, engine=engine, target_update_period=4)
    for seed in range(5):
        first.update(first.transfer(make_batch(seed=seed)))
    second = make_updater(seed=1, engine=engine, target_update_period=4)
    second.load(first.state())
    for seed in range(5, 10):
        first.update(first.transfer(make_batch(seed=seed)))
        second.update(second.transfer(make_batch(seed=seed)))
    ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


SWITCHES: list[dict[str, Any]] = [
    {},
    {"double": False, "loss": "squared", "max_gradient_norm": 0.0},
    {"dueling": True, "hidden": (48, 32), "max_gradient_norm": 0.5},
    {"target_update_period": 1, "target_update_rate": 0.01, "hidden": (65, 33)},
]


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize(
    "optimizer",
    [
        {"optimizer": "sgd", "learning_rate": 1e-2},
        {"optimizer": "adam", "learning_rate": 1e-3, "optimizer_epsilon": 1e-2},
    ],
)
def test_engines_agree_after_1000_updates(switches: dict[str, Any], optimizer: dict[str, Any]) -> None:
    """With Adam's default epsilon, which divides tiny gradients by their size, rounding errors become whole steps."""
    updaters = [make_updater(engine=engine, **switches, **optimizer) for engine in ("native", "torch")]
    for name, value in updaters[0].weights().items():
        np.testing.assert_array_equal(value, updaters[1].weights()[name])  # the same initial parameters
    for seed in range(1000):
        batch = make_batch(seed=seed)
        native, reference = (updater.update(updater.transfer(batch)) for updater in updaters)
        np.testing.assert_allclose(native.priority, reference.priority, atol=1e-4)
        assert native.loss == pytest.approx(reference.loss, abs=1e-4)
    for name, value in updaters[0].weights().items():
        np.testing.assert_allclose(value, updaters[1].weights()[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize(("first", "second"), [("native", "torch"), ("torch", "native")])
def test_checkpoints_move_between_engines(first: Engine, second: Engine) -> None:
    source, other = make_updater(seed=0, engine=first), make_updater(seed=1, engine=second)
    for seed in range(5):
        source.update(source.transfer(make_batch(seed=seed)))
    other.load(source.state())
    batch = make_batch(seed=9)
    for name, value in other.state().items():
        np.testing.assert_array_equal(value, source.state()[name], err_msg=name)
    np.testing.assert_allclose(other.act(batch.observation), source.act(batch.observation), atol=1e-6)
    ours, theirs = (updater.update(updater.transfer(batch)) for updater in (source, other))
    np.testing.assert_allclose(ours.priority, theirs.priority, atol=1e-5)


def test_a_loss_that_is_not_finite_is_returned_without_a_warning(engine: Engine) -> None:
    updater = make_updater(engine=engine, loss="squared")
    batch = make_batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = updater.update(updater.transfer(batch._replace(reward=np.full(32, 1e30, np.float32)))).loss
    assert not np.isfinite(loss)


def test_state_of_another_network_is_refused() -> None:
    with pytest.raises(CheckpointError, match="does not fit these settings"):
        make_updater().load(DQN(hidden=(16,)).make_updater(SPEC, CPU, 0).state())


def test_continuous_actions_are_refused() -> None:
    spec = EnvironmentSpec((3,), "float32", 2, continuous=True)
    with pytest.raises(ConfigError) as caught:
        DQN().make_updater(spec, CPU, 0)
    able = ", ".join(name for name, kind in ALGORITHMS.known().items() if "continuous" in kind.action_kinds)
    assert str(caught.value) == (
        f"algorithm is dqn, and the environment's actions are continuous: one of {able} is required"
    )
    assert "d4pg, td3, sac" in able


def test_weights_are_a_copy_of_the_online_network() -> None:
    updater = make_updater()
    weights = updater.weights()
    assert weights.keys() == {"dense_0.weight", "dense_0.bias", "q.weight", "q.bias"}
    before = {name: value.copy() for name, value in weights.items()}
    updater.update(updater.transfer(make_batch()))
    assert all((weights[name] == before[name]).all() for name in weights)
    assert (updater.weights()["q.weight"] != before["q.weight"]).any()
