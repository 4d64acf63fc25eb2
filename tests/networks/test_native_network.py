"""The native network next to torch's: outputs and gradients on every instruction set."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch

from headrace._native import dense_instructions
from headrace.algorithms.engine import open_network
from headrace.networks import Architecture
from headrace.networks.architecture import Head
from headrace.networks.base import Description
from headrace.networks.critic import Critic
from headrace.networks.native_network import NativeNetwork, build_dense
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.torch_network import TorchNetwork
from headrace.networks.twin_critics import TwinCritics
from headrace.types import Array

ARCHITECTURES = {
    "plain": Architecture((8,), "float32", "mlp", (128, 128), Head("q", 4)),
    "no hidden layer": Architecture((3,), "float32", "mlp", (), Head("q", 2)),
    "odd widths": Architecture((5, 2), "float64", "mlp", (33, 17, 5), Head("q", 3)),
    "dueling": Architecture((6,), "float32", "mlp", (64, 40), Head("q", 5), dueling=True),
    "dueling, one hidden layer": Architecture((6,), "float32", "mlp", (40,), Head("q", 2), dueling=True),
    "tanh": Architecture((7,), "float32", "mlp", (31,), Head("action", 2, "tanh")),
    "bytes": Architecture((2, 5, 5), "uint8", "mlp", (32,), Head("q", 3)),
    "integers": Architecture((4,), "int64", "mlp", (32,), Head("q", 3)),
    "wide": Architecture((300,), "float32", "mlp", (400, 300), Head("q", 18)),
}


def initial(network: Description) -> Array:
    return network.layout.initial(np.random.default_rng(0))


def make_module(network: Description, parameters: Array) -> torch.nn.Module:
    """The torch module with copies of these parameters."""
    module = network.build_torch()
    values = network.layout.views(parameters)
    module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in values.items()})
    return module


def gradient_of(network: Description, module: torch.nn.Module) -> Array:
    """The gradients of the module's parameters, in the network's layout."""
    return network.layout.join({name: parameter.grad.numpy() for name, parameter in module.named_parameters()})


def make_observation(architecture: Architecture, batch: int) -> Array:
    random = np.random.default_rng(1)
    shape = (batch, *architecture.input_shape)
    if architecture.input_dtype.startswith("float"):
        return random.standard_normal(shape).astype(architecture.input_dtype)
    return random.integers(0, 5 if architecture.input_dtype == "int64" else 256, shape).astype(architecture.input_dtype)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("instructions", dense_instructions())
def test_outputs_and_gradients_are_torch_s(instructions: str, name: str) -> None:
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    description = PolicyNetwork(architecture)
    parameters = initial(description)
    module = make_module(description, parameters)
    gradient = np.empty_like(parameters)
    network = NativeNetwork(build_dense(architecture, instructions), architecture, parameters, gradient)
    for batch in (1, 37):
        observation = make_observation(architecture, batch)
        expected = module(torch.from_numpy(observation))
        dy = torch.randn(expected.shape)
        module.zero_grad()
        expected.backward(dy)
        reference = gradient_of(description, module)
        x = network.place(observation)
        np.testing.assert_allclose(network.output(x), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(network.forward(x), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        network.backward(dy.numpy())
        assert np.abs(gradient - reference).max() <= 1e-5 * np.abs(reference).max()


def test_both_networks_follow_changes_of_the_parameters() -> None:
    """They keep none: other workers may write them at any time."""
    architecture = ARCHITECTURES["dueling"]
    description = PolicyNetwork(architecture)
    parameters = initial(description)
    observation = make_observation(architecture, 3)
    native = NativeNetwork(description.build_native(), architecture, parameters)
    networks = (native, TorchNetwork(description, parameters))
    before = [network.output(network.place(observation)) for network in networks]
    parameters *= 0.5
    after = [network.output(network.place(observation)) for network in networks]
    np.testing.assert_allclose(*before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(*after, rtol=1e-5, atol=1e-6)
    assert np.abs(after[0] - before[0]).max() > 1e-3


def test_torch_s_default_device_moves_no_parameters() -> None:
    """On copies of them a run would train nothing."""
    description = PolicyNetwork(ARCHITECTURES["plain"])
    parameters, gradient = initial(description), np.zeros(description.layout.size, np.float32)
    torch.set_default_device("meta")
    try:
        network = TorchNetwork(description, parameters, gradient)
        y = network.forward(network.place(make_observation(ARCHITECTURES["plain"], 3)))
        network.backward(np.ones_like(y))
    finally:
        torch.set_default_device(None)
    assert np.abs(gradient).max() > 0


def test_observations_are_placed_without_a_copy_where_they_fit() -> None:
    def place(architecture: Architecture, observation: Array) -> Array:
        parameters = np.zeros(architecture.layout.size, np.float32)
        return NativeNetwork(build_dense(architecture), architecture, parameters).place(observation)

    floats, integers = ARCHITECTURES["plain"], ARCHITECTURES["integers"]
    observation = make_observation(floats, 3)
    observation.flags.writeable = False  # like a batch in memory that another process shares
    assert np.shares_memory(place(floats, observation), observation)
    assert place(integers, make_observation(integers, 3)).dtype == np.float32


CRITICS: dict[str, Callable[[Architecture], Description]] = {
    "twin critics": lambda policy: TwinCritics(policy, 2, (36, 20)),
    "twin critics, one hidden layer": lambda policy: TwinCritics(policy, 2, (33,)),
    "distributional critic": lambda policy: Critic(policy, 2, (70, 33, 20), 51),
    "distributional critic, one hidden layer": lambda policy: Critic(policy, 2, (33,), 11),
}


@pytest.mark.parametrize("name", CRITICS)
@pytest.mark.parametrize("observations", ["plain", "bytes"])
def test_a_critic_s_gradients_are_torch_s(name: str, observations: str) -> None:
    torch.manual_seed(0)
    architecture = ARCHITECTURES[observations]
    critic = CRITICS[name](architecture)
    parameters = initial(critic)
    module = make_module(critic, parameters)
    gradient = np.empty_like(parameters)
    native = open_network("native", critic, parameters, gradient)
    observation = make_observation(architecture, 37)
    action = torch.rand(37, 2, requires_grad=True)
    expected = module(torch.from_numpy(observation), action)
    dy = torch.randn(expected.shape)
    expected.backward(dy)
    reference = gradient_of(critic, module)
    assert action.grad is not None
    inputs = (native.place(observation), action.detach().numpy())
    np.testing.assert_allclose(native.forward(*inputs), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(native.differentiate(dy.numpy()), action.grad.numpy(), rtol=1e-4, atol=1e-6)
    native.backward(dy.numpy())
    assert np.abs(gradient - reference).max() <= 1e-5 * np.abs(reference).max()


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_the_gradient_by_the_action_leaves_that_by_the_parameters_alone(engine: Literal["native", "torch"]) -> None:
    critics = TwinCritics(ARCHITECTURES["plain"], 2, (8,))
    parameters = initial(critics)
    gradient = np.ones_like(parameters)
    network = open_network(engine, critics, parameters, gradient)
    x = network.place(make_observation(ARCHITECTURES["plain"], 4))
    network.forward(x, np.zeros((4, 2), np.float32))
    assert network.differentiate(np.ones((4, 2), np.float32)).shape == (4, 2)
    assert (gradient == 1).all()
