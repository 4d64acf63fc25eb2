"""Batch-normalized networks: both engines, numbers by hand, and the dense layers that they fold into."""

import dataclasses
from typing import Literal

import numpy as np
import onnxruntime
import pytest
import torch

from headrace._native import OptimizerOptions, dense_instructions
from headrace.algorithms.engine import open_normalized_network
from headrace.errors import ConfigError
from headrace.gradients.local import LocalVector
from headrace.networks.architecture import Architecture, Head
from headrace.networks.base import NormalizedNetwork
from headrace.networks.native_network import NormalizedNativeNetwork
from headrace.networks.normalized_streams import Limits, NormalizedStreams
from headrace.networks.own_network import OwnNetwork, OwnParameter
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.networks.torch_network import NormalizedTorchNetwork
from headrace.types import Array, EnvironmentSpec

POLICY = Architecture((7,), "float32", "mlp", (96, 80), Head("gaussian", 4))
BYTES = Architecture((2, 3), "uint8", "mlp", (70,), Head("gaussian", 2))
DESCRIPTIONS = {
    "policy": NormalizedStreams.policy(POLICY),
    "policy of bytes": NormalizedStreams.policy(BYTES),
    "critics": NormalizedStreams.critics(POLICY, 3, (65, 33), 2),
    "critic of one layer": NormalizedStreams.critics(POLICY, 3, (), 1),
}
LIMITS = {"by batch": Limits(), "renormalized": Limits(1.5, 0.4)}
ENGINES: tuple[Literal["native", "torch"], ...] = ("native", "torch")


class Arrays:
    """Parameters, statistics away from their first values, and room for both gradients."""

    def __init__(self, description: NormalizedStreams) -> None:
        random = np.random.default_rng(3)
        self.parameters = description.layout.initial(random)
        for name, value in description.layout.views(self.parameters).items():
            if name.endswith((".gain", ".shift")):
                value[:] += 0.3 * random.standard_normal(value.shape, np.float32)
        self.statistics = description.statistics.initial(random)
        for name, value in description.statistics.views(self.statistics).items():
            noise = random.standard_normal(value.shape, np.float32)
            value[:] = np.exp(0.3 * noise) if name.endswith(".variance") else 0.3 * noise
        self.gradient, self.change = np.zeros_like(self.parameters), np.zeros_like(self.statistics)

    def open(self, description: NormalizedStreams, instructions: str) -> NormalizedNetwork:
        """A native network, or a torch one for the instructions "torch"."""
        vectors = self.parameters, self.gradient, self.statistics, self.change
        if instructions == "torch":
            return NormalizedTorchNetwork(description, *vectors)
        return NormalizedNativeNetwork(description.build_native(instructions), description.architecture, *vectors)


def make_inputs(description: NormalizedStreams, batch: int) -> list[Array]:
    random = np.random.default_rng(1)
    shape = (batch, *description.architecture.input_shape)
    floats = description.architecture.input_dtype == "float32"
    observation = (
        random.standard_normal(shape, np.float32) if floats else random.integers(0, 256, shape).astype(np.uint8)
    )
    actions = random.uniform(-1, 1, (batch, description.actions)).astype(np.float32)
    return [observation, actions] if description.actions else [observation]


def close(found: Array, expected: Array) -> bool:
    """Within 1e-5 of the largest value."""
    return bool(np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", DESCRIPTIONS)
@pytest.mark.parametrize("instructions", dense_instructions())
def test_native_outputs_gradients_and_statistics_are_torch_s(instructions: str, name: str) -> None:
    description = DESCRIPTIONS[name]
    ours, theirs = Arrays(description), Arrays(description)
    native, reference = ours.open(description, instructions), theirs.open(description, "torch")
    for batch in (2, 37):
        inputs = make_inputs(description, batch)
        x, y = ([network.place(inputs[0]), *inputs[1:]] for network in (native, reference))
        for limits in (None, *LIMITS.values()):
            if limits is None:
                assert close(native.output(*x), reference.output(*y))
                found, expected = native.forward(*x), reference.forward(*y)
            else:
                found, expected = native.forward_batch(limits, *x), reference.forward_batch(limits, *y)
            assert close(found, expected)
            dy = np.random.default_rng(2).standard_normal(expected.shape, np.float32)
            native.backward(dy)
            reference.backward(dy)
            assert close(ours.gradient, theirs.gradient)
            assert close(ours.change, theirs.change) or limits is None
            if description.actions:
                reference.forward(*y)
                native.forward(*x)
                assert close(native.differentiate(dy), reference.differentiate(dy))


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_by_hand(engine: Literal["native", "torch"]) -> None:
    """One layer of weight 2 and bias 1, gain 3 and shift -1, over the batch 1, 3, 5: mean 3, variance 8 / 3.

    The first row is 2 (3 (1 - 3) / sigma - 1) + 1 with sigma^2 = 8 / 3 + 0.001. The running mean and variance are 1 and
    0.999: without the batch z is x - 1, and d is 2 / 1, r sigma / 1 within their limits.
    """
    architecture = Architecture((1,), "float32", "mlp", (), Head("gaussian", 1))
    description = NormalizedStreams.policy(architecture)
    assert [each.name for each in description.layout.parameters] == [
        f"gaussian.{name}" for name in ("weight", "bias", "gain", "shift")
    ]
    vectors = [
        LocalVector(np.array(values, np.float32), OptimizerOptions("sgd", learning_rate=0.25))
        for values in ([2, 1, 3, -1], [1, 0.999])
    ]
    network = open_normalized_network(engine, description, *vectors)
    x = network.place(np.array([[1], [3], [5]], np.float32))
    sigma = (8 / 3 + 1e-3) ** 0.5
    np.testing.assert_allclose(network.output(x)[:, 0], [-1, 11, 23], rtol=1e-6)
    np.testing.assert_allclose(
        network.forward_batch(Limits(), x)[:, 0], [-1 - 12 / sigma, -1, -1 + 12 / sigma], rtol=1e-5
    )
    limited = network.forward_batch(Limits(1.2, 0.5), x)[:, 0]
    np.testing.assert_allclose(limited, [-1 + 6 * (1.2 * z / sigma + 0.5) for z in (-2, 0, 2)], rtol=1e-5)
    np.testing.assert_allclose(network.forward_batch(Limits(3, 5), x)[:, 0], [-1, 11, 23], rtol=1e-5)
    np.testing.assert_allclose(vectors[1].gradient, [1 - 3, 0.999 - 8 / 3], rtol=1e-6)
    vectors[1].apply()
    np.testing.assert_allclose(vectors[1].parameters, [1.5, 0.75 * 0.999 + 0.25 * 8 / 3], rtol=1e-6)  # momentum 3 / 4


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_whose_outputs_do_not_count_change_gradients_through_the_statistics(
    engine: Literal["native", "torch"],
) -> None:
    """As the next states of a joint batch do."""
    description = DESCRIPTIONS["critics"]
    arrays = Arrays(description)
    network = arrays.open(description, "" if engine == "native" else "torch")
    observation, action = make_inputs(description, 8)
    dy = np.ones((8, 2), np.float32)
    dy[4:] = 0
    gradients = []
    for other in (1, 2):
        network.forward_batch(
            Limits(), network.place(np.concatenate((observation[:4], other * observation[4:]))), action
        )
        network.backward(dy)
        gradients.append(arrays.gradient.copy())
    assert not np.allclose(*gradients, rtol=1e-2)


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-5), ("fp16", 2e-3), ("int8", 0.05)])
@pytest.mark.parametrize("name", ["policy", "policy of bytes"])
def test_the_folded_graph_is_the_network_with_running_statistics(name: str, precision: Precision, error: float) -> None:
    description = DESCRIPTIONS[name]
    arrays = Arrays(description)
    graph = PolicyGraph(description.architecture, precision)
    assert bool(graph.integer) == (precision == "int8" and name == "policy")
    folded = description.fold(arrays.parameters, arrays.statistics)
    session = onnxruntime.InferenceSession(graph.serialize(folded), providers=["CPUExecutionProvider"])
    [observation] = make_inputs(description, 33)
    [found] = session.run(None, {"observation": observation})
    network = arrays.open(description, "")
    expected = network.output(network.place(observation))
    assert np.abs(found - expected).max() <= error * np.abs(expected).max()
    assert np.abs(expected - network.forward_batch(Limits(), network.place(observation))).max() > 0.05


@pytest.mark.parametrize("kind", ["nature", "ong"])
def test_only_dense_layers_are_normalized(kind: Literal["nature", "ong"]) -> None:
    frames = Architecture((1, 64, 64), "uint8", kind, (32,), Head("gaussian", 2))
    with pytest.raises(ConfigError, match=f"network is {kind}; it must be mlp"):
        NormalizedStreams.policy(frames)
    with pytest.raises(ConfigError, match=f"network is {kind}; it must be mlp"):
        NormalizedStreams.critics(frames, 2, (32,), 2)


def test_modules_of_users_are_not_normalized() -> None:
    spec = EnvironmentSpec((7,), "float32", 2, continuous=True)
    own = OwnNetwork("package.module:build", spec, 4, False, (OwnParameter("weight", (4, 7)),))
    with pytest.raises(ConfigError, match=r"network is package\.module:build; it must be mlp"):
        NormalizedStreams.policy(dataclasses.replace(POLICY, own=own))


def test_critics_that_no_machine_holds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"critic_hidden is \(65536, 65536\)"):
        NormalizedStreams.critics(POLICY, 2, (65_536, 65_536), 2)


def test_torch_modules_have_the_layouts_names() -> None:
    for description in DESCRIPTIONS.values():
        with torch.device("meta"):
            module = description.build_torch()
        assert {name: tuple(value.shape) for name, value in module.named_parameters()} == {
            each.name: each.shape for each in description.layout.parameters
        }
        assert {name: tuple(value.shape) for name, value in module.named_buffers()} == {
            each.name: each.shape for each in description.statistics.parameters
        }
