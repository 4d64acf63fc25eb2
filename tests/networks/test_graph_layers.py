"""One integer layer against its worst case, and which layers are integer."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.networks.architecture import Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_layers import IntegerLayers, integer_layer
from headrace.networks.graph_template import GraphTemplate
from headrace.networks.session import open_session
from headrace.types import Array


def run_layer(weight: Array, bias: Array, x: Array) -> Array:
    outputs, inputs = weight.shape
    graph = GraphBuilder()
    layers = IntegerLayers(graph)
    y = layers.dense("x", Dense("layer", inputs, outputs, "none"), reads_values=False)
    model = graph.model(
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", inputs])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["B", outputs])],
    )
    initializers = {**layers.encode("layer.weight", weight), **layers.encode("layer.bias", bias)}
    output: Array = open_session(GraphTemplate(model).fill(initializers)).run(None, {"x": x})[0]
    return output


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (333, 70), (2048, 512)])
def test_error_is_within_the_worst_case(inputs, outputs) -> None:
    """With half steps h_w and h_x of weight and input: |error| <= sum(|x| h_w + |w| h_x + h_w h_x)."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((outputs, inputs)).astype(np.float32) / np.float32(inputs**0.5)
    bias = random.standard_normal(outputs).astype(np.float32)
    x = np.maximum(random.standard_normal((5, inputs)), 0).astype(np.float32) * np.float32([[1], [0.01], [9], [1], [1]])
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    half_w = np.abs(weight).max(1) / 254  # [O]
    half_x = x.max(1, keepdims=True) / 254  # [B, 1]
    bound = x.sum(1, keepdims=True) * half_w + half_x * np.abs(weight).sum(1) + inputs * half_x * half_w
    error = np.abs(run_layer(weight, bias, x) - exact)
    assert error.max() > 0
    assert (error <= bound * 1.001 + 1e-6).all()


def test_largest_products_do_not_saturate() -> None:
    """Every code is the largest: 2048 * 127 * 127 = 33,032,192, in steps of 1 / 127^2."""
    output = run_layer(np.ones((64, 2048), np.float32), np.zeros(64, np.float32), np.ones((2, 2048), np.float32))
    np.testing.assert_allclose(output, 2048, rtol=1e-6)


def test_codes_worked_by_hand() -> None:
    """Inputs in steps of 1.27 / 127 = 0.01 and weights in steps of 0.02: 3 * 0.02 * 127 * 0.01 + 0.014 rounded down."""
    weight = np.zeros((64, 64), np.float32)
    weight[0, :2] = 0.06, 2.54
    x = np.zeros((1, 64), np.float32)
    x[0, :2] = 1.27, 0.014
    output = run_layer(weight, np.full(64, 0.5, np.float32), x)
    np.testing.assert_allclose(output[0, 0], 3 * 0.02 * 127 * 0.01 + 127 * 0.02 * 1 * 0.01 + 0.5, rtol=1e-5)
    np.testing.assert_array_equal(output[0, 1:], np.full(63, 0.5, np.float32))


@pytest.mark.parametrize(
    ("inputs", "outputs", "reads_values", "integer"),
    [(64, 64, False, True), (63, 64, False, False), (2048, 6, False, False), (2048, 2048, True, False)],
)
def test_which_layers_are_integer(inputs, outputs, reads_values, integer) -> None:
    assert integer_layer(Dense("layer", inputs, outputs, "relu"), reads_values) is integer
