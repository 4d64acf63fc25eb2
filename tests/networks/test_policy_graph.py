"""The ONNX graph that actors run is the network that the learner trains."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.torch_modules import PolicyModule
from headrace.parameters import Policy
from headrace.types import EnvironmentSpec


def weights(network: PolicyModule) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in network.state_dict().items()}


@pytest.mark.parametrize(
    ("shape", "dtype", "stack", "kind", "hidden", "dueling"),
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
        ((16, 16), "uint8", 4, "ong", (512,), False),
        ((21, 17), "uint8", 1, "ong", (32,), True),
        ((3, 19, 19), "uint8", 1, "grid", (64,), False),
        ((4, 5, 8), "uint8", 1, "auto", (32,), True),
        ((4, 10, 10), "uint8", 1, "minatar", (128,), False),
        ((3, 40, 36), "uint8", 4, "auto", (16,), False),
        ((40, 36, 3), "uint8", 4, "auto", (16,), False),
        ((6, 7, 3), "uint8", 2, "grid", (16,), True),
    ],
)
def test_graph_equals_network(shape, dtype, stack, kind, hidden, dueling) -> None:
    spec = EnvironmentSpec(shape, dtype, 5, stack)
    architecture = Architecture.of(spec, kind, hidden, dueling)
    torch.manual_seed(0)
    network = PolicyModule(architecture)
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
    policy = Policy(graph.serialize(weights(PolicyModule(architecture))), version=1)
    newer = PolicyModule(architecture)
    policy.load(graph.serialize(weights(newer)), version=2)
    assert policy.version == 2
    np.testing.assert_allclose(policy.output(inputs), newer(torch.ones(1, 4)).detach().numpy(), atol=1e-6)


def test_dueling_advantage_is_centered() -> None:
    architecture = Architecture.of(EnvironmentSpec((4,), "float32", 3), "mlp", (8,), True)
    network = PolicyModule(architecture)
    with torch.no_grad():
        network.get_submodule("advantage_1").bias += 7  # the same for every action: Q must not change
        before = network(torch.ones(2, 4))
        network.get_submodule("advantage_1").bias += 7
        torch.testing.assert_close(network(torch.ones(2, 4)), before)


def test_nature_network_has_the_published_size() -> None:
    architecture = Architecture.of(EnvironmentSpec((84, 84), "uint8", 4, stack=4), "nature", (512,), False)
    assert architecture.features == 3136
    assert sum(value.numel() for value in PolicyModule(architecture).parameters()) == 1_686_180


@pytest.mark.parametrize(("pixels", "parameters"), [(16, 228_132), (32, 621_348), (64, 2_194_212), (128, 8_485_668)])
def test_ongs_network_has_the_published_size(pixels, parameters) -> None:
    architecture = Architecture.of(EnvironmentSpec((pixels, pixels), "uint8", 4, stack=4), "ong", (512,))
    assert architecture.features == 64 * (pixels // 8) ** 2
    assert sum(value.numel() for value in PolicyModule(architecture).parameters()) == parameters


def test_a_padded_convolution_and_its_pool_worked_by_hand() -> None:
    """Ong's first layer, all weights 1: a pixel of 255 counts 1 in each 7 x 7 that holds it, so in each 2 x 2 pool."""
    architecture = Architecture.of(EnvironmentSpec((8, 8), "uint8", 1), "ong", (), False)
    network = PolicyModule(architecture)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.get_submodule("convolution_0").weight[0] = 1
        network.get_submodule("convolution_1").weight[0, 0, 2, 2] = 1  # the middle: what is there
        network.get_submodule("convolution_2").weight[0, 0, 1, 1] = 1
        network.get_submodule("q").weight[0, 0] = 2
    frames = np.zeros((3, 8, 8), np.uint8)
    frames[0, 0, 0] = 255  # seen through the corner, beyond which are zeros
    frames[1, 0, 0] = frames[1, 3, 3] = 255  # the 7 x 7 around (0, 0) holds both
    frames[2, 0, 0] = frames[2, 7, 7] = 255  # none holds both
    output = Policy(PolicyGraph(architecture).serialize(weights(network)), version=1).output(frames)
    np.testing.assert_allclose(output, [[2], [4], [2]], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "stack", "dtype", "kind"),
    [
        ((3, 5, 35), 1, "uint8", "grid"),
        ((3, 4, 35), 1, "uint8", "mlp"),
        ((3, 36, 36), 1, "uint8", "nature"),
        ((16, 16), 4, "uint8", "grid"),
        ((16, 16), 1, "uint8", "mlp"),
        ((3, 9, 9), 1, "float32", "mlp"),
        ((36, 40, 3), 4, "uint8", "nature"),
        ((40,), 40, "uint8", "mlp"),
        ((8, 5), 4, "uint8", "grid"),
    ],
)
def test_auto_takes_the_network_that_suits_the_frames(shape, stack, dtype, kind) -> None:
    assert Architecture.of(EnvironmentSpec(shape, dtype, 4, stack), "auto", (8,)).kind == kind


@pytest.mark.parametrize(
    ("shape", "image"), [((36, 40, 3), (12, 36, 40)), ((3, 8, 8), (12, 8, 8)), ((9, 8), (4, 9, 8))]
)
def test_frames_of_a_stack_are_channels_side_by_side(shape, image) -> None:
    """In the order of the frames, as Mnih et al. 2015 stack them."""
    architecture = Architecture.of(EnvironmentSpec(shape, "uint8", 4, stack=4), "grid", (8,))
    assert architecture.encoders[0].image_shape == image


@pytest.mark.parametrize(("kind", "side"), [("nature", 36), ("ong", 8), ("grid", 5), ("minatar", 3)])
def test_frames_that_are_too_small_are_refused(kind, side) -> None:
    assert Architecture.of(EnvironmentSpec((1, side, side), "uint8", 4), kind, (8,)).features > 0
    with pytest.raises(ConfigError, match=rf"network is {kind}; it needs frames of at least {side}x{side} pixels"):
        Architecture.of(EnvironmentSpec((1, side, side - 1), "uint8", 4), kind, (8,))


def test_nature_network_refuses_vectors() -> None:
    with pytest.raises(ConfigError, match="network is nature; it needs frames"):
        Architecture.of(EnvironmentSpec((8,), "float32", 4), "nature", (512,), False)


def test_dueling_without_a_hidden_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="hidden is empty"):
        Architecture.of(EnvironmentSpec((8,), "float32", 4), "mlp", (), True)


def test_actors_do_not_import_torch() -> None:
    code = "import sys, headrace.launch.child; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
