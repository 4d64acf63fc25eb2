"""R2D2's gradient step."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from headrace import R2D2
from headrace.algorithms.r2d2.rules import n_step_returns, rescale
from headrace.algorithms.r2d2.updater import R2D2Updater
from headrace.errors import ConfigError
from headrace.networks.torch_modules import RecurrentModule
from headrace.types import Array, Batch, EnvironmentSpec

SPEC = EnvironmentSpec((3,), "float32", 4)
SMALL = R2D2(burn_in=2, learned_steps=4, n_step=2, memory=8, hidden=(8,), learning_rate=1e-2)
SIZE = 6


def make_batch(config: R2D2, seed: int = 0, size: int = SIZE) -> Batch:
    """Random windows; the last of them is short and terminates."""
    random = np.random.default_rng(seed)
    form = config.window_form(SPEC)
    record = np.zeros(size, form.record)
    record["burn_in"] = np.arange(size) % (config.burn_in + 1)
    record["steps"] = record["burn_in"] + config.learned_steps + config.n_step - 1
    record["steps"][-1], record["terminated"][-1] = record["burn_in"][-1] + 2, 1
    for name in ("state", "reward", "frame"):
        record[name] = random.standard_normal(record[name].shape)
    record["action"] = random.integers(0, 4, record["action"].shape)
    empty: Any = np.zeros((size, 1), np.uint8)
    one = np.ones(size, np.float32)
    return Batch(
        observation=empty,
        next_observation=empty,
        action=record.view(np.uint8).reshape(size, -1),
        reward=one,
        discount=one,
        weight=random.uniform(0.2, 1, size).astype(np.float32),
        probability=one,
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.ones(size, np.uint64),
    )


def updater(config: R2D2 = SMALL, seed: int = 0) -> R2D2Updater:
    found = config.make_updater(SPEC, "cpu", seed)
    assert isinstance(found, R2D2Updater)
    return found


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_overfits_one_batch(cell: str) -> None:
    config = R2D2.from_record({**SMALL.to_record(), "cell": cell, "target_update_period": 10_000})
    assert isinstance(config, R2D2)
    learner, batch = updater(config), make_batch(config)
    losses = [learner.update(learner.transfer(batch)).loss for _ in range(80)]
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize(
    ("double", "rescaled", "updates"), [(True, True, 0), (False, False, 0), (True, True, 3), (False, False, 3)]
)
def test_a_step_is_that_of_a_twin_in_torch(double: bool, rescaled: bool, updates: int) -> None:
    """One step of SGD with the rows one by one, without the gradient of the burn-in, which would change it.

    It is the first, or one after others, when the online network is not its target any more.
    """
    config = R2D2.from_record(
        {**SMALL.to_record(), "double": double, "value_rescaling": rescaled, "optimizer": "sgd", "loss": "squared"}
        | {"max_gradient_norm": 0.0, "learning_rate": 0.3, "target_update_period": 10_000}
    )
    assert isinstance(config, R2D2)
    learner, batch = updater(config), make_batch(config)
    for _ in range(updates):
        learner.update(learner.transfer(batch))
    module, target_module = RecurrentModule(learner.architecture), RecurrentModule(learner.architecture)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in learner.weights().items()})
    followed = {f"target.{name}": name for name in learner.weights()}
    target_module.load_state_dict(
        {followed[name]: torch.from_numpy(value) for name, value in learner.state().items() if name in followed}
    )
    before = {name: value.clone() for name, value in module.named_parameters()}
    windows = config.window_form(SPEC).unpack(np.ascontiguousarray(batch.action))
    total = torch.zeros(())
    priorities, same_actions = [], []
    for row in range(SIZE):
        burn_in, steps = int(windows.burn_in[row]), int(windows.steps[row])
        x, state = torch.from_numpy(windows.observation[row : row + 1].copy()), windows.state[row : row + 1]
        q, q_target = (unroll(each, x, burn_in, steps, state) for each in (module, target_module))
        selector = (q if double else q_target).detach().numpy()
        same_actions.append(bool((q.argmax(1) == q_target.argmax(1)).all()))
        errors = []
        for t in range(min(4, steps - burn_in)):
            target = target_of(config, windows, q_target.detach().numpy(), selector, row, t)
            errors.append(target - q[t, int(windows.action[row, burn_in + t])])
        error = torch.stack(errors)
        total = total + float(batch.weight[row]) * (error**2 / 2).sum() / (SIZE * 4)
        size = error.detach().abs()
        priorities.append(float(0.9 * size.max() + 0.1 * size.mean()))
    assert all(same_actions) == (updates == 0)
    total.backward()
    update = learner.update(learner.transfer(batch))
    assert update.loss == pytest.approx(float(total.detach()), rel=1e-4)
    np.testing.assert_allclose(update.priority, priorities, rtol=1e-3)
    for name, value in learner.weights().items():
        gradient = module.get_parameter(name).grad
        assert gradient is not None
        expected = before[name] - config.learning_rate * gradient
        np.testing.assert_allclose(value, expected.detach().numpy(), atol=1e-6, err_msg=name)


def unroll(module: RecurrentModule, x: torch.Tensor, burn_in: int, steps: int, state: Array) -> torch.Tensor:
    """Q values of the observations after the burn-in, of whose steps there is no gradient."""
    after = torch.from_numpy(state)
    with torch.no_grad():
        if burn_in:
            _, after = module.unroll(x[:, :burn_in], after)
    return module.unroll(x[:, burn_in : steps + 1], after)[0][0]


def target_of(config: R2D2, windows: Any, q_target: Array, selector: Array, row: int, t: int) -> float:
    """h(R + gamma^m h^-1(Q'(s, a))), with the action of the selector's largest Q."""
    burn_in, steps = int(windows.burn_in[row]), int(windows.steps[row])
    m = min(config.n_step, steps - burn_in - t)
    total = sum(config.discount**i * float(windows.reward[row, burn_in + t + i]) for i in range(m))
    if not (windows.terminated[row] and burn_in + t + m == steps):
        value = float(q_target[t + m, selector[t + m].argmax()])
        total += config.discount**m * (inverse(value) if config.value_rescaling else value)
    return float(rescale(np.float32([total]))[0]) if config.value_rescaling else total


def inverse(y: float) -> float:
    """h^-1 by bisection."""
    low, high = -1e3, 1e3
    for _ in range(100):
        middle = (low + high) / 2
        value = np.sign(middle) * (np.sqrt(abs(middle) + 1) - 1) + 1e-3 * middle
        low, high = (middle, high) if value < y else (low, middle)
    return low


def test_gradients_are_clipped() -> None:
    """To a norm of 0.01: the step of SGD with the rate 0.5 has the norm 0.005."""
    settings = {"optimizer": "sgd", "learning_rate": 0.5, "max_gradient_norm": 0.01}
    config = R2D2.from_record({**SMALL.to_record(), **settings})
    assert isinstance(config, R2D2)
    learner = updater(config)
    before = learner.weights()
    learner.update(learner.transfer(make_batch(config)))
    moved = [value - before[name] for name, value in learner.weights().items()]
    assert np.sqrt(sum(np.square(each).sum() for each in moved)) == pytest.approx(0.005, rel=1e-3)


def test_target_is_copied_every_period() -> None:
    config = R2D2.from_record({**SMALL.to_record(), "target_update_period": 2, "target_update_rate": 1.0})
    assert isinstance(config, R2D2)
    learner = updater(config)
    initial = learner.weights()
    for update in (1, 2):
        learner.update(learner.transfer(make_batch(config)))
        online, state = learner.weights(), learner.state()
        expected = initial if update == 1 else online
        for name in initial:
            assert not np.array_equal(online[name], initial[name]), name
            np.testing.assert_array_equal(state[f"target.{name}"], expected[name], err_msg=name)


def test_padding_has_no_influence() -> None:
    config, batch = SMALL, make_batch(SMALL)
    record = batch.action.copy().view(config.window_form(SPEC).record)[:, 0]
    steps = int(record["steps"][-1])
    record["frame"][-1, steps + 1 :], record["reward"][-1, steps:], record["action"][-1, steps:] = 7.0, 5.0, 1
    other = batch._replace(action=record.view(np.uint8).reshape(SIZE, -1))
    first, second = updater(), updater()
    np.testing.assert_array_equal(
        first.update(first.transfer(batch)).priority, second.update(second.transfer(other)).priority
    )
    for name, value in first.weights().items():
        np.testing.assert_array_equal(value, second.weights()[name])


def test_state_restores_the_learner() -> None:
    """Parameters, target and moments: the state after a further update is equal too."""
    settings = dataclasses.replace(SMALL, target_update_period=2)
    first, second = updater(settings), updater(settings, seed=1)
    for seed in range(3):
        first.update(first.transfer(make_batch(SMALL, seed)))
    second.load(first.state())
    batch = make_batch(SMALL, 9)
    assert first.update(first.transfer(batch)).loss == second.update(second.transfer(batch)).loss
    assert (first.version, second.version) == (4, 4)
    wanted, found = first.state(), second.state()
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(value, found[name]) for name, value in wanted.items())


def test_the_native_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"learner_engine is native and cell is gru.*torch is required"):
        R2D2(cell="gru").make_updater(SPEC, "cpu", 0, engine="native")


@pytest.mark.parametrize(
    "wrong", [{"learned_steps": 1}, {"burn_in": -1}, {"memory": 0}, {"priority_mix": 1.5}, {"cell": "rnn"}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    (field,) = wrong
    with pytest.raises(ConfigError, match=field):
        R2D2(**wrong)


def test_returns_of_the_batch_are_not_all_alike() -> None:
    """Else the twin would prove little."""
    windows = SMALL.window_form(SPEC).unpack(make_batch(SMALL).action)
    returns = n_step_returns(windows.reward[:, :5], windows.steps - windows.burn_in, windows.terminated, 2, 0.9)
    assert not returns.learned.all()
    assert (returns.discount == 0).any()
