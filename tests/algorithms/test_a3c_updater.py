"""A3C's gradient step: a twin, one batch overfitted, state carried over, both trunks and kinds of actions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from headrace import A3C, AdPsgd, Hogwild, Lock
from headrace.algorithms.a3c.updater import A3CUpdater
from headrace.algorithms.config import Engine
from headrace.errors import CheckpointError
from headrace.networks.actor_critic import ActorCritic
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.servers import Endpoint
from headrace.topologies.config import Topology
from headrace.types import Array, Batch, EnvironmentSpec

DISCRETE = EnvironmentSpec((3,), "float32", 4)
CONTINUOUS = EnvironmentSpec((3,), "float32", 2, continuous=True)
SPECS = pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
TRUNKS = pytest.mark.parametrize("trunk", ["shared", "separate"])
CPU = "cpu"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """More threads are slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_batch(spec: EnvironmentSpec, size: int = 32, seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    observation = random.standard_normal((size, 3)).astype(np.float32)
    action = (
        random.standard_normal((size, spec.actions)).astype(np.float32)
        if spec.continuous
        else random.integers(0, spec.actions, size)
    )
    return Batch(
        observation=observation,
        next_observation=observation,
        action=action,
        reward=random.standard_normal(size).astype(np.float32),
        discount=np.zeros(size, np.float32),
        weight=np.ones(size, np.float32),
        probability=np.ones(size, np.float32),
        key=np.zeros(size, np.uint64),
        policy_version=np.ones(size, np.uint64),
    )


def make_updater(spec: EnvironmentSpec, seed: int = 0, engine: Engine = "auto", **settings: Any) -> A3CUpdater:
    updater = A3C(**{"hidden": (32,), **settings}).make_updater(spec, CPU, seed, engine=engine)
    assert isinstance(updater, A3CUpdater)
    return updater


@SPECS
@TRUNKS
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_three_updates_match_torch_distributions_and_optimizer(
    spec: EnvironmentSpec, trunk: Any, engine: Engine
) -> None:
    updater = make_updater(
        spec, engine=engine, trunk=trunk, entropy_bonus=0.05, value_weight=0.25, max_gradient_norm=0.3
    )
    network = ActorCritic(updater.architecture, trunk, spec.actions if spec.continuous else 0)
    twin = network.build_torch()
    first = network.layout.views(updater.state()["parameters"])
    twin.load_state_dict({name: torch.from_numpy(value) for name, value in first.items()})
    optimizer = torch.optim.RMSprop(twin.parameters(), 7e-4, 0.99, 1e-5)
    for seed in range(3):
        batch = make_batch(spec, seed=seed)
        observation, action, return_ = map(torch.from_numpy, (batch.observation, batch.action, batch.reward))
        output, value = twin(observation).split([spec.actions, 1], 1)
        value = value.squeeze(1)
        if spec.continuous:
            normal = Normal(output, twin.log_sigma.exp())
            log_probability, entropy = normal.log_prob(action).sum(1), normal.entropy().sum(1).mean()
        else:
            categorical = Categorical(logits=output)
            log_probability, entropy = categorical.log_prob(action), categorical.entropy().mean()
        advantage = (return_ - value).detach()
        loss = -(advantage * log_probability).mean() - 0.05 * entropy + 0.25 * ((return_ - value) ** 2 / 2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.3)
        optimizer.step()
        update = updater.update(updater.transfer(batch))
        assert update.loss == pytest.approx(loss.item(), abs=1e-5)
        np.testing.assert_allclose(update.priority, advantage.abs().numpy(), atol=1e-5)
    ours = updater.state()["parameters"]
    for name, value in network.layout.views(ours).items():
        np.testing.assert_allclose(value, twin.state_dict()[name], atol=2e-6, rtol=0, err_msg=name)


def log_sigma(updater: A3CUpdater) -> Array:
    """Of two-dimensional actions."""
    return updater.state()["parameters"][:2]


def repeat(updater: A3CUpdater, batch: Batch, advantage: float, updates: int) -> None:
    """Updates whose advantages are all the same."""
    for _ in range(updates):
        return_ = updater.values(batch.observation) + np.float32(advantage)
        updater.update(updater.transfer(batch._replace(reward=return_)))


@SPECS
@TRUNKS
def test_values_overfit_one_batch(spec: EnvironmentSpec, trunk: Any) -> None:
    updater = make_updater(spec, trunk=trunk, hidden=(64, 64), value_weight=100.0, learning_rate=3e-3, optimizer="adam")
    tensors = updater.transfer(make_batch(spec))
    first = updater.update(tensors).priority.mean()
    for _ in range(400):
        last = updater.update(tensors).priority.mean()
    assert last < first / 5


@SPECS
@TRUNKS
def test_policy_overfits_one_batch(spec: EnvironmentSpec, trunk: Any) -> None:
    updater = make_updater(spec, trunk=trunk, hidden=(64,), value_weight=0.0, entropy_bonus=0.0, learning_rate=3e-3)
    batch = make_batch(spec)
    batch = batch._replace(action=batch.action.clip(-0.9, 0.9)) if spec.continuous else batch
    repeat(updater, batch, 1.0, 400)
    output = updater.act(batch.observation)
    if spec.continuous:
        assert np.abs(output - batch.action).mean() < 0.25  # at first about 0.6
        assert (np.exp(log_sigma(updater)) < 0.4).all()
    else:
        assert (output.argmax(1) == batch.action).mean() > 0.9


def test_actions_with_positive_advantage_become_more_probable() -> None:
    updater = make_updater(DISCRETE, value_weight=0.0, entropy_bonus=0.0)
    batch = make_batch(DISCRETE, size=2)._replace(action=np.array([1, 2]), reward=np.array([9.0, -9.0], np.float32))
    before = updater.act(batch.observation)
    updater.update(updater.transfer(batch))
    after = updater.act(batch.observation)

    def probability(logits: Any) -> Any:
        return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    change = probability(after) - probability(before)
    assert change[0, 1] > 0
    assert change[1, 2] < 0


@SPECS
def test_entropy_alone_makes_the_policy_wider(spec: EnvironmentSpec) -> None:
    updater = make_updater(spec, value_weight=0.0, entropy_bonus=0.5, learning_rate=3e-3)
    batch = make_batch(spec)

    def width() -> float:
        if spec.continuous:
            return float(np.exp(log_sigma(updater)).min())
        return -float(np.ptp(updater.act(batch.observation), 1).mean())

    repeat(updater, batch, 1.0, 50)
    before = width()
    repeat(updater, batch, 0.0, 50)  # nothing is better or worse than expected
    assert width() > before


@SPECS
@TRUNKS
def test_the_published_policy_is_trunk_and_head(spec: EnvironmentSpec, trunk: Any) -> None:
    updater = make_updater(spec, trunk=trunk)
    observation = make_batch(spec).observation
    updater.update(updater.transfer(make_batch(spec)))
    head = "action" if spec.continuous else "q"
    weights = updater.weights()
    assert weights.keys() == {"dense_0.weight", "dense_0.bias", f"{head}.weight", f"{head}.bias"}
    policy = Policy(PolicyGraph(updater.architecture).serialize(weights), 1)
    np.testing.assert_allclose(policy.output(observation), updater.act(observation), atol=1e-6)


@SPECS
def test_restored_state_continues_bit_for_bit(spec: EnvironmentSpec) -> None:
    first = make_updater(spec, seed=0)
    for seed in range(5):
        first.update(first.transfer(make_batch(spec, seed=seed)))
    second = make_updater(spec, seed=1)
    second.load(first.state())
    assert second.version == 5
    for seed in range(5, 10):
        for each in (first, second):
            each.update(each.transfer(make_batch(spec, seed=seed)))
    ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_state_of_another_network_is_refused() -> None:
    with pytest.raises(CheckpointError, match="do not fit these settings"):
        make_updater(DISCRETE).load(make_updater(DISCRETE, trunk="separate").state())


@SPECS
def test_make_updater_builds_it_from_the_settings(spec: EnvironmentSpec) -> None:
    assert isinstance(A3C().make_updater(spec, CPU, 0), A3CUpdater)


@pytest.mark.parametrize("topology", [Lock(workers=2), Hogwild(workers=2), AdPsgd(workers=2)])
def test_updates_by_other_workers_are_not_visible_within_a_rollout(topology: Topology) -> None:
    config = A3C(hidden=(8,), learning_rate=0.1)
    vectors = topology.open_vectors(config, Endpoint(""))
    assert vectors is not None
    config.make_updater(DISCRETE, CPU, 0, vectors)  # that of the training process
    [handle] = vectors.handles
    one = config.make_updater(DISCRETE, CPU, 0, lambda *values: handle.open(*values, Endpoint(""), 0, 0))
    other = config.make_updater(DISCRETE, CPU, 0, lambda *values: handle.open(*values, Endpoint(""), 1, 0))
    batch = make_batch(DISCRETE)
    one.pull()
    before = one.act(batch.observation)
    other.pull()
    other.update(other.transfer(batch))
    np.testing.assert_array_equal(one.act(batch.observation), before)
    one.pull()
    assert (one.act(batch.observation) != before).any()
