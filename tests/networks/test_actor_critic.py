"""Policy and value: shared layers and initial weights."""

from typing import Any

import numpy as np
import pytest
import torch

from headrace.networks import Architecture
from headrace.networks.actor_critic import ActorCritic
from headrace.types import EnvironmentSpec

DISCRETE = EnvironmentSpec((3,), "float32", 4)
CONTINUOUS = EnvironmentSpec((3,), "float32", 2, continuous=True)
FRAMES = EnvironmentSpec((84, 84), "uint8", 6, stack=4)


def describe(spec: EnvironmentSpec, trunk: Any, hidden: tuple[int, ...] = (16,)) -> ActorCritic:
    return ActorCritic(Architecture.of(spec, "auto", hidden), trunk, spec.actions if spec.continuous else 0)


def make(spec: EnvironmentSpec, trunk: Any, hidden: tuple[int, ...] = (16,)) -> Any:
    """The torch module with its initial values."""
    network = describe(spec, trunk, hidden)
    values = network.layout.views(torch.from_numpy(network.layout.initial(np.random.default_rng(0))))
    module = network.build_torch()
    module.load_state_dict(values)
    return module


def count(network: ActorCritic) -> int:
    return network.layout.size


def test_parameters() -> None:
    trunk, policy, value = 3 * 16 + 16, 16 * 4 + 4, 16 + 1
    assert count(describe(DISCRETE, "shared")) == trunk + policy + value
    assert count(describe(DISCRETE, "separate")) == 2 * trunk + policy + value
    assert count(describe(CONTINUOUS, "shared")) == trunk + (16 * 2 + 2) + value + 2  # and two deviations


@pytest.mark.parametrize("trunk", ["shared", "separate"])
@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS, FRAMES])
@pytest.mark.parametrize("hidden", [(16,), ()])
def test_shapes_and_the_policy_s_own_output(spec: EnvironmentSpec, trunk: Any, hidden: tuple[int, ...]) -> None:
    network = make(spec, trunk, hidden)
    observation = torch.from_numpy(np.ones((5, *spec.input_shape), spec.observation_dtype))
    output = network(observation)
    assert output.shape == (5, spec.actions + 1)
    torch.testing.assert_close(output[:, :-1], network.policy(observation))


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_the_value_affects_the_policys_trunk_only_if_shared(trunk: str) -> None:
    network = make(DISCRETE, trunk)
    network(torch.ones(2, 3))[:, -1].sum().backward()
    gradient = network.policy.get_submodule("dense_0").weight.grad
    assert (gradient is not None and bool(gradient.any())) == (trunk == "shared")


def test_first_policy_is_near_uniform_and_near_the_middle() -> None:
    observation = torch.randn(100, 3)
    assert make(DISCRETE, "shared")(observation)[:, :-1].abs().max() < 0.05
    network = make(CONTINUOUS, "shared")
    assert network(observation)[:, :-1].abs().max() < 0.05
    assert network.log_sigma.exp().tolist() == pytest.approx([0.6, 0.6])
