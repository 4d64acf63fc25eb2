"""The binding of dense networks: gradients next to torch's, and arrays that don't fit."""

from typing import Any

import numpy as np
import pytest
import torch

from headrace._native import DenseLayer, DenseNetwork, dense_instructions
from headrace.errors import ConfigError
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
