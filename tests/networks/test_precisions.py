"""Policies in fp16 and int8: their errors, and the independence of rows."""

import numpy as np
import pytest
import torch

from headrace.errors import DivergenceError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.torch_modules import PolicyModule
from headrace.parameters import Policy
from headrace.types import Array, EnvironmentSpec, Part

OBSERVATION = 17
BODY = EnvironmentSpec((OBSERVATION,), "float32", 6)
SCREEN = EnvironmentSpec((84, 84), "uint8", 6, stack=4)
SMALL_SCREEN = EnvironmentSpec((16, 16), "uint8", 6, stack=4)
BOARD = EnvironmentSpec((3, 9, 11), "uint8", 6)


def weights(network: PolicyModule) -> dict[str, Array]:
    """The network's parameters as a graph takes them."""
    return {name: value.detach().numpy() for name, value in network.state_dict().items()}


def observations(rows: int, seed: int) -> Array:
    """[rows, 17] float32; positions of O(1) next to velocities of O(10), as bodies have."""
    units = np.where(np.arange(OBSERVATION) < 8, 1, 10)
    return (np.random.default_rng(seed).standard_normal((rows, OBSERVATION)) * units).astype(np.float32)


def train(hidden: tuple[int, ...], continuous: bool, steps: int = 200) -> PolicyModule:
    """Fits 6 outputs of O(1), smooth functions of the observation."""
    torch.set_num_threads(1)  # more are slower where others work, too
    torch.manual_seed(0)
    spec = EnvironmentSpec((OBSERVATION,), "float32", 6, continuous=continuous)
    network = PolicyModule(Architecture.of(spec, "mlp", hidden))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    mixture = torch.randn(OBSERVATION, 6) / OBSERVATION**0.5
    for step in range(steps):
        x = torch.from_numpy(observations(128, 1000 + step))
        loss = (network(x) - torch.sin(x / 5 @ mixture)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def random_network(architecture: Architecture) -> PolicyModule:
    torch.manual_seed(1)
    return PolicyModule(architecture)


def network_output(network: PolicyModule, x: Array) -> Array:
    with torch.no_grad():
        return network(torch.from_numpy(x)).numpy()


def policy(network: PolicyModule, precision: str) -> Policy:
    return Policy(PolicyGraph(network.architecture, precision).serialize(weights(network)), 1)


@pytest.fixture(scope="module")
def learned() -> PolicyModule:
    return train((256, 256), continuous=False)


@pytest.mark.parametrize("continuous", [False, True])
def test_full_precision_is_the_trained_network(continuous) -> None:
    network = train((64, 64), continuous, steps=50)
    x = observations(256, 0)
    expected = network_output(network, x)
    assert 0.3 < np.abs(expected).max() < 3
    assert np.abs(policy(network, "fp32").output(x) - expected).max() < 1e-5


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture.of(EnvironmentSpec((OBSERVATION,), "float32", 6, continuous=True), "mlp", (2048, 2048, 2048)),
        Architecture.of(BODY, "mlp", (2048, 2048, 2048)),
        Architecture.of(SCREEN, "nature", (512,)),
        Architecture.of(SCREEN, "nature", (512,), dueling=True),
    ],
    ids=["tanh", "mlp", "cnn", "cnn-dueling"],
)
@pytest.mark.parametrize("rows", [1, 16])
def test_full_precision_is_the_random_network_at_the_published_sizes(architecture, rows) -> None:
    """Biases of the head spread over 1, so that outputs are O(1)."""
    network = random_network(architecture)
    with torch.no_grad():
        network.get_submodule(architecture.heads[-1][-1].name).bias.copy_(torch.linspace(-1, 1, 6))
    image = architecture.input_dtype == "uint8"
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (rows, 4, 84, 84), np.uint8) if image else observations(rows, 0)
    expected = network_output(network, x)
    assert 0.5 < np.abs(expected).max() < 3
    assert np.abs(policy(network, "fp32").output(x) - expected).max() < 1e-5


@pytest.mark.parametrize(
    ("precision", "largest", "mean", "agreement"), [("fp16", 1e-3, 2e-4, 0.995), ("int8", 0.015, 0.003, 0.97)]
)
def test_error_of_a_trained_network(learned, precision, largest, mean, agreement) -> None:
    x = observations(1000, 0)
    expected = network_output(learned, x)
    output = policy(learned, precision).output(x)
    error = np.abs(output - expected) / (expected.max() - expected.min())
    assert 0 < error.max() < largest
    assert error.mean() < mean
    assert (output.argmax(1) == expected.argmax(1)).mean() > agreement


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_greedy_action_is_that_of_the_network_where_it_is_clear(learned, precision) -> None:
    x = observations(1000, 0)
    expected = network_output(learned, x)
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 0.03 * (expected.max() - expected.min())  # twice the largest error
    assert clear.mean() > 0.5
    output = policy(learned, precision).output(x)
    np.testing.assert_array_equal(output[clear].argmax(1), expected[clear].argmax(1))


@pytest.mark.parametrize(("precision", "largest"), [("fp16", 1e-3), ("int8", 0.02)])
@pytest.mark.parametrize(
    "architecture",
    [
        Architecture.of(BODY, "mlp", (256, 256)),
        Architecture.of(BODY, "mlp", (1024, 1024, 1024)),
        Architecture.of(BODY, "mlp", (128, 128), dueling=True),
        Architecture.of(EnvironmentSpec((OBSERVATION,), "float32", 6, continuous=True), "mlp", (256, 256)),
    ],
    ids=["mlp", "deep", "dueling", "tanh"],
)
def test_error_of_a_random_network(architecture, precision, largest) -> None:
    network = random_network(architecture)
    x = observations(500, 2)
    expected = network_output(network, x)
    error = np.abs(policy(network, precision).output(x) - expected) / (expected.max() - expected.min())
    assert 0 < error.max() < largest


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture.of(SCREEN, "nature", (512,)),
        Architecture.of(SCREEN, "nature", (512,), True),
        Architecture.of(SMALL_SCREEN, "ong", (512,)),
        Architecture.of(BOARD, "grid", (128,), True),
    ],
    ids=["cnn", "cnn-dueling", "ong", "grid"],
)
@pytest.mark.parametrize(("precision", "largest"), [("fp16", 1e-3), ("int8", 0.02)])
def test_error_of_a_convolutional_network(precision, largest, architecture) -> None:
    network = random_network(architecture)
    x = np.random.default_rng(0).integers(0, 256, (16, *architecture.input_shape), np.uint8)
    x[::2, :, 4:9] //= 16
    expected = network_output(network, x)
    error = np.abs(policy(network, precision).output(x) - expected) / (expected.max() - expected.min())
    assert 0 < error.max() < largest


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture.of(BODY, "mlp", (256, 256)),
        Architecture.of(BODY, "mlp", (100, 300)),
        Architecture.of(BODY, "mlp", (128, 128), dueling=True),
        Architecture.of(EnvironmentSpec((OBSERVATION,), "float32", 5, continuous=True), "mlp", (2048, 256)),
        Architecture.of(EnvironmentSpec((128,), "uint8", 6), "mlp", (256,)),
        Architecture.of(SCREEN, "nature", (512,), False),
        Architecture.of(SCREEN, "nature", (512,), True),
        Architecture.of(SMALL_SCREEN, "ong", (512,)),
        Architecture.of(BOARD, "grid", (128,), True),
    ],
    ids=["mlp", "odd", "dueling", "tanh", "bytes", "cnn", "cnn-dueling", "ong", "grid"],
)
def test_a_row_does_not_depend_on_the_others(architecture) -> None:
    """Bit for bit: alone, in a batch of 8, at another place in it, next to an outlier."""
    random = np.random.default_rng(3)
    image = architecture.input_dtype == "uint8"
    x = (random.integers(0, 64, (8, *architecture.input_shape)) if image else observations(8, 3)).astype(
        architecture.input_dtype
    )
    actor = policy(random_network(architecture), "int8")
    together = actor.output(x)
    alone = np.concatenate([actor.output(x[row : row + 1]) for row in range(8)])
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(actor.output(np.ascontiguousarray(x[::-1]))[::-1], together)
    x[0] = 255 if image else 1e6
    mixed = actor.output(x)
    assert not np.array_equal(mixed[0], together[0])
    np.testing.assert_array_equal(mixed[1:], together[1:])


def small(weight: float, bias: float) -> dict[str, Array]:
    """One output: weight * x + bias."""
    return {"q.weight": np.full((1, 1), weight, np.float32), "q.bias": np.full(1, bias, np.float32)}


def test_half_precision_keeps_biases_in_full() -> None:
    graph = PolicyGraph(Architecture.of(EnvironmentSpec((1,), "float32", 1), "mlp", ()), "fp16")
    output = Policy(graph.serialize(small(65504.0, 1e5 + 1)), 1).output(np.zeros((1, 1), np.float32))
    assert output == [[1e5 + 1]]  # 16 bits hold neither so much nor so many digits


@pytest.mark.parametrize("weight", [65600.0, -65600.0, np.inf])
def test_a_weight_too_large_for_half_precision_is_refused(weight: float) -> None:
    graph = PolicyGraph(Architecture.of(EnvironmentSpec((1,), "float32", 1), "mlp", ()), "fp16")
    with pytest.raises(DivergenceError, match=r"a weight of q.weight is (65600|inf); it must be at most 65504"):
        graph.serialize(small(weight, 0.0))


def test_a_row_of_zeros_gives_the_bias() -> None:
    """All activations of the second layer's input are 0: its scale is, too."""
    architecture = Architecture.of(EnvironmentSpec((2,), "float32", 1), "mlp", (64, 64))
    parameters = {
        "dense_0.weight": np.ones((64, 2)),
        "dense_0.bias": np.zeros(64),
        "dense_1.weight": np.ones((64, 64)),
        "dense_1.bias": np.full(64, 0.5),
        "q.weight": np.ones((1, 64)),
        "q.bias": np.zeros(1),
    }
    parameters = {name: value.astype(np.float32) for name, value in parameters.items()}
    output = Policy(PolicyGraph(architecture, "int8").serialize(parameters), 1).output(np.float32([[-1, -1], [1, 1]]))
    # 64 * 0.5; and 64 * (64 * 2 + 0.5), whose numbers are all exact in integers too
    np.testing.assert_allclose(output, [[32], [8224]], rtol=1e-6)


def test_sizes() -> None:
    """3 x 2048: codes are 2 x 2048^2 bytes of 33.7 MB; what stays in float32 is 48,000 weights."""
    architecture = Architecture.of(BODY, "mlp", (2048, 2048, 2048))
    parameters = weights(PolicyModule(architecture))
    full = len(PolicyGraph(architecture, "fp32").serialize(parameters))
    assert sum(value.nbytes for value in parameters.values()) == 4 * 8_441_862
    assert full < 1.001 * 4 * 8_441_862
    assert len(PolicyGraph(architecture, "fp16").serialize(parameters)) < 0.501 * full
    assert len(PolicyGraph(architecture, "int8").serialize(parameters)) < 0.256 * full


BYTES = EnvironmentSpec((128,), "uint8", 6)
STACKED_BYTES = EnvironmentSpec((64,), "uint8", 6, stack=2)
CELL = EnvironmentSpec((8,), "uint8", 6, parts=(Part("cell", "int64", (), 0, (128,), (0,)),))
CELL_AND_BYTES = EnvironmentSpec((72,), "uint8", 6, parts=(*CELL.parts, Part("bytes", "uint8", (64,), 8)))
CELL_AND_IMAGE = EnvironmentSpec((72,), "uint8", 6, parts=(*CELL.parts, Part("image", "uint8", (8, 8), 8)))


@pytest.mark.parametrize(
    ("spec", "integer"),
    [
        (BOARD, True),
        (CELL, True),
        (BYTES, False),
        (STACKED_BYTES, False),
        (CELL_AND_BYTES, False),
        (CELL_AND_IMAGE, False),
    ],
)
def test_a_layer_whose_inputs_have_different_units_stays_in_full_precision(
    spec: EnvironmentSpec, integer: bool
) -> None:
    """One large byte sets the scale of a row: next to it small ones would be rounded to zero."""
    graph = PolicyGraph(Architecture.of(spec, "mlp", (64, 64)), "int8")
    assert graph.integer == (("dense_0.weight", "dense_1.weight") if integer else ("dense_1.weight",))
