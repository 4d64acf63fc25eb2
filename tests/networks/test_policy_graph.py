"""The ONNX graph that actors run is the network that the learner trains."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.networks import Architecture, PolicyGraph
from headrace.networks.policy_network import PolicyNetwork
from headrace.parameters import Policy
from headrace.types import EnvironmentSpec


def weights(network: PolicyNetwork) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in network.state_dict().items()}


@pytest.mark.parametrize(
    ("shape", "dtype", "stack", "kind", "hidden", "duelling"),
    [
        ((8,), "float32", 1, "auto", (64, 64), False),
        ((8,), "float64", 1, "mlp", (), False),
        ((), "float32", 1, "auto", (8,), False),
        ((3, 2), "float32", 4, "mlp", (32, 16), True),
        ((128,), "uint8", 1, "auto", (64,), False),
        ((84, 84), "uint8", 4, "auto", (512,), False),
        ((84, 84), "uint8", 4, "nature", (512,), True),
        ((64, 48), "uint8", 1, "nature", (32,), False),
        ((6,), "int32", 1, "auto", (16,), True),
    ],
)
def test_graph_equals_network(shape, dtype, stack, kind, hidden, duelling) -> None:
    spec = EnvironmentSpec(shape, dtype, 5, stack)
    architecture = Architecture.of(spec, kind, hidden, duelling)
    torch.manual_seed(0)
    network = PolicyNetwork(architecture)
    random = np.random.default_rng(0)
    inputs = (
        random.integers(0, 255, (7, *spec.input_shape))
        if "int" in dtype
        else random.normal(size=(7, *spec.input_shape))
    )
    inputs = inputs.astype(dtype)
    policy = Policy(PolicyGraph(architecture).serialize(weights(network)), version=1)
    with torch.no_grad():
        expected = network(torch.from_numpy(inputs)).numpy()
    assert expected.shape == (7, 5)
    np.testing.assert_allclose(policy.output(inputs), expected, atol=1e-5)


def test_weights_can_be_replaced() -> None:
    architecture = Architecture.of(EnvironmentSpec((4,), "float32", 2), "mlp", (8,), False)
    graph = PolicyGraph(architecture)
    inputs = np.ones((1, 4), np.float32)
    policy = Policy(graph.serialize(weights(PolicyNetwork(architecture))), version=1)
    newer = PolicyNetwork(architecture)
    policy.load(graph.serialize(weights(newer)), version=2)
    assert policy.version == 2
    np.testing.assert_allclose(policy.output(inputs), newer(torch.ones(1, 4)).detach().numpy(), atol=1e-6)


def test_duelling_advantage_is_centred() -> None:
    architecture = Architecture.of(EnvironmentSpec((4,), "float32", 3), "mlp", (8,), True)
    network = PolicyNetwork(architecture)
    with torch.no_grad():
        network.get_submodule("advantage_1").bias += 7  # the same for every action: Q must not change
        before = network(torch.ones(2, 4))
        network.get_submodule("advantage_1").bias += 7
        torch.testing.assert_close(network(torch.ones(2, 4)), before)


def test_nature_network_has_the_published_size() -> None:
    architecture = Architecture.of(EnvironmentSpec((84, 84), "uint8", 4, stack=4), "nature", (512,), False)
    assert architecture.features == 3136
    assert sum(value.numel() for value in PolicyNetwork(architecture).parameters()) == 1_686_180


def test_nature_network_refuses_vectors() -> None:
    with pytest.raises(ConfigError, match="network is nature; it needs frames"):
        Architecture.of(EnvironmentSpec((8,), "float32", 4), "nature", (512,), False)


def test_duelling_without_a_hidden_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="hidden is empty"):
        Architecture.of(EnvironmentSpec((8,), "float32", 4), "mlp", (), True)


def test_actors_do_not_import_torch() -> None:
    code = "import sys, headrace.launch.child; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
