"""The binding of dense networks: gradients next to torch's, and arrays that don't fit."""

from typing import Any

import numpy as np
import pytest
import torch

from headrace._native import DenseLayer, DenseNetwork, dense_instructions, project, softmax
from headrace.errors import ConfigError, StorageError
from headrace.types import Array


def make_network(instructions: str = "", activation: str = "elu") -> DenseNetwork:
    """A layer [5, 4] with normalization and an activation over two inputs, and one [2, 5]."""
    layers = [
        DenseLayer(4, 5, weight=0, bias=20, normalization=25, activation=activation),
        DenseLayer(5, 2, weight=35, bias=45, source=0),
    ]
    return DenseNetwork([(3, False), (1, True)], layers, parameters=47, instructions=instructions)


def make_arrays() -> dict[str, Array]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    return {
        "parameters": normal(47),
        "floats": normal(6, 3),
        "bytes": random.integers(0, 256, (6, 1), np.uint8),
        "y": np.empty((6, 2), np.float32),
        "dy": normal(6, 2),
        "gradient": np.empty(47, np.float32),
        "dx": np.empty((6, 3), np.float32),
    }


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "silu"])
@pytest.mark.parametrize("instructions", dense_instructions())
def test_outputs_and_gradients_are_torch_s(instructions: str, activation: str) -> None:
    network, arrays = make_network(instructions, activation), make_arrays()
    assert (network.instructions, network.outputs) == (instructions, 2)
    theta = torch.tensor(arrays["parameters"], requires_grad=True)
    x = torch.tensor(arrays["floats"], requires_grad=True)
    hidden = torch.cat((x, torch.tensor(arrays["bytes"]).float() / 255), 1) @ theta[:20].view(5, 4).T + theta[20:25]
    hidden = torch.nn.functional.layer_norm(hidden, (5,), theta[25:30], theta[30:35])
    y = getattr(torch.nn.functional, activation)(hidden) @ theta[35:45].view(2, 5).T + theta[45:]
    y.backward(torch.tensor(arrays["dy"]))
    network.forward(arrays["parameters"], (arrays["floats"], arrays["bytes"]), arrays["y"])
    network.backward(arrays["parameters"], arrays["dy"], arrays["gradient"], (arrays["dx"], None))
    for name, expected in (("y", y), ("gradient", theta.grad), ("dx", x.grad)):
        assert expected is not None
        np.testing.assert_allclose(arrays[name], expected.detach().numpy(), rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("parameters", np.zeros(46, np.float32), "parameters: float32 of shape (46,) given, float32 of shape (47,)"),
        ("floats", np.zeros((6, 3)), "x[0]: float64 of shape (6, 3) given, float32 of shape (6, 3) required"),
        ("floats", np.zeros((5, 3), np.float32), "x[0]: float32 of shape (5, 3) given, float32 of shape (6, 3)"),
        ("floats", np.zeros((6, 6), np.float32)[:, ::2], "x[0]: a strided array given"),
        ("bytes", np.zeros((6, 1), np.float32), "x[1]: float32 of shape (6, 1) given, uint8 of shape (6, 1) required"),
        ("y", np.zeros((6, 3), np.float32), "y: float32 of shape (6, 3) given, float32 of shape (6, 2) required"),
        ("dy", np.zeros((5, 2), np.float32), "dy: float32 of shape (5, 2) given, float32 of shape (6, 2) required"),
        ("gradient", np.zeros(48, np.float32), "gradient: float32 of shape (48,) given"),
        ("gradient", np.frombuffer(bytes(4 * 47), np.float32), "gradient: a read-only array given"),
        ("dx", np.zeros((6, 4), np.float32), "dx[0]: float32 of shape (6, 4) given"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, value: Array, message: str) -> None:
    network, arrays = make_network(), make_arrays() | {name: value}

    def compute() -> None:
        network.forward(arrays["parameters"], (arrays["floats"], arrays["bytes"]), arrays["y"])
        network.backward(arrays["parameters"], arrays["dy"], arrays["gradient"], (arrays["dx"], None))

    with pytest.raises(ConfigError) as caught:
        compute()
    assert message in str(caught.value)


def test_each_input_needs_an_array() -> None:
    network, arrays = make_network(), make_arrays()
    with pytest.raises(ConfigError, match="x: 1 arrays given, 2 required"):
        network.forward(arrays["parameters"], (arrays["floats"],), arrays["y"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"instructions": "mmx"}, "instructions"),
        ({"dueling": True}, "1 heads given"),
        ({"parameters": 9}, "layer 0 has parameters beyond the 9"),
    ],
)
def test_descriptions_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DenseNetwork([(4, False)], [DenseLayer(4, 2, weight=0, bias=8)], **({"parameters": 10} | settings))


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match='activation is "gelu", but it must be none, relu, tanh, elu or silu'):
        DenseLayer(4, 2, weight=0, bias=8, activation="gelu")


@pytest.mark.parametrize("columns", [1, 2, 7, 16, 51, 64])
@pytest.mark.parametrize("instructions", dense_instructions())
def test_softmax_is_torch_s(instructions: str, columns: int) -> None:
    logits = 9 * np.random.default_rng(0).standard_normal((33, columns)).astype(np.float32)
    probability, log_probability = np.empty((2, *logits.shape), np.float32)
    softmax(logits, probability, log_probability, instructions=instructions)
    z = torch.from_numpy(logits).double()
    np.testing.assert_allclose(probability, z.softmax(1), rtol=1e-5)
    np.testing.assert_allclose(log_probability, z.log_softmax(1), rtol=1e-6, atol=5e-6)


@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize("instructions", dense_instructions())
def test_log_probabilities_keep_their_digits_where_all_logits_are_large(instructions: str, offset: float) -> None:
    logits = (np.random.default_rng(0).standard_normal((9, 20)) + offset).astype(np.float32)
    probability, log_probability = np.empty((2, *logits.shape), np.float32)
    softmax(logits, probability, log_probability, instructions=instructions)
    np.testing.assert_allclose(log_probability, torch.from_numpy(logits).double().log_softmax(1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("instructions", dense_instructions())
def test_not_a_number_stays_in_its_row(instructions: str) -> None:
    logits = np.zeros((3, 20), np.float32)
    logits[1, 18] = np.nan
    probability, log_probability = np.empty((2, *logits.shape), np.float32)
    softmax(logits, probability, log_probability, instructions=instructions)
    np.testing.assert_array_equal(np.isnan(probability), [[False] * 20, [True] * 20, [False] * 20])
    np.testing.assert_array_equal(np.isnan(log_probability), np.isnan(probability))
    support, reward = np.linspace(0, 1, 20, dtype=np.float32), np.array([0, np.nan, 0], np.float32)
    projected = np.empty_like(logits)
    project(support, np.ones_like(logits), reward, np.ones(3, np.float32), projected, instructions=instructions)
    np.testing.assert_array_equal(np.isnan(projected).any(1), [False, True, False])


def naive_projection(support: Array, probability: Array, reward: Array, discount: Array) -> Array:
    """The same in float64, on whole arrays."""
    last = len(support) - 1
    spacing = (support[-1] - support[0]).astype(float) / last
    place = (reward[:, None].astype(float) + discount[:, None] * support - support[0]) / spacing
    distance = np.abs(place.clip(0, last)[:, :, None] - np.arange(last + 1))  # [B, Z, Z]
    projected: Array = np.einsum("bz,bzj->bj", probability, (1 - distance).clip(0))
    return projected


@pytest.mark.parametrize("atoms", [2, 11, 51])
@pytest.mark.parametrize("instructions", dense_instructions())
def test_projection_equals_a_naive_one(instructions: str, atoms: int) -> None:
    random = np.random.default_rng(0)
    probability = random.dirichlet(np.ones(atoms), 40).astype(np.float32)
    support = np.linspace(-3, 5, atoms, dtype=np.float32)
    reward = random.uniform(-6, 6, 40).astype(np.float32)
    reward[:2] = np.inf, -np.inf
    discount = random.choice([0, 0.9, 1], 40).astype(np.float32)
    projected = np.empty_like(probability)
    project(support, probability, reward, discount, projected, instructions=instructions)
    np.testing.assert_allclose(projected, naive_projection(support, probability, reward, discount), atol=1e-5)


def test_distributions_that_do_not_fit_are_refused() -> None:
    one, row = np.ones((1, 1), np.float32), np.ones(3, np.float32)
    with pytest.raises(ConfigError, match="logits: an array of two axes is required"):
        softmax(row, row, row)
    with pytest.raises(ConfigError, match=r"log_probability: float32 of shape \(3,\) given"):
        softmax(one, one.copy(), row)
    with pytest.raises(ConfigError, match="fewer than 2 atoms given"):
        project(one[0], one, one[0], one[0], one.copy())


@pytest.mark.parametrize("instructions", dense_instructions())
def test_an_empty_batch_has_gradients_of_zero(instructions: str) -> None:
    network, arrays = make_network(instructions), make_arrays()
    gradient = np.full(47, 7.0, np.float32)
    inputs = (arrays["floats"][:0], arrays["bytes"][:0])
    network.forward(arrays["parameters"], inputs, np.empty((0, 2), np.float32))
    network.backward(arrays["parameters"], np.empty((0, 2), np.float32), gradient)
    assert (gradient == 0).all()


def test_after_a_batch_without_memory_for_it_there_is_nothing_to_derive() -> None:
    width = batch = 2**22  # so that the layer's outputs would take 70 TB
    layers = [DenseLayer(1, width, weight=0, bias=width), DenseLayer(width, 1, weight=0, bias=width, source=0)]
    network = DenseNetwork([(1, False)], layers, parameters=2 * width)
    parameters, one = np.zeros(2 * width, np.float32), np.zeros((1, 1), np.float32)
    network.forward(parameters, (one,), one.copy())
    many = np.zeros((batch, 1), np.float32)
    with pytest.raises(StorageError, match="can't be allocated"):
        network.forward(parameters, (many,), many.copy())
    with pytest.raises(ConfigError, match="dy"):
        network.backward(parameters, one)
