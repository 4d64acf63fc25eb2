"""The spliced bytes are the model that ONNX itself would write."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_template import GraphTemplate


def build(width: int) -> GraphTemplate:
    graph = GraphBuilder()
    weight = graph.parameter("weight", (width, 3), np.float32)
    graph.node("Mul", graph.node("Gemm", "x", weight, transB=1), graph.constant("two", np.float32(2)), output="y")
    graph.parameter("codes", (5,), np.int8)
    return GraphTemplate(
        graph.model(
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", width])],
        )
    )


@pytest.mark.parametrize("width", [1, 10, 11, 1365, 1366, 200_000])  # lengths of one byte to four
def test_every_initializer_is_where_it_belongs(width) -> None:
    weight = np.arange(3 * width, dtype=np.float32).reshape(width, 3)
    codes = np.arange(-2, 3, dtype=np.int8)
    model = onnx.load_from_string(build(width).fill({"weight": weight, "codes": codes}))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert set(arrays) == {"two", "weight", "codes"}
    np.testing.assert_array_equal(arrays["weight"], weight)
    np.testing.assert_array_equal(arrays["codes"], codes)
    assert arrays["two"] == 2
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Mul"]
    assert model.producer_name == "headrace"
    assert model.opset_import[0].version == 17


def test_an_array_with_another_layout_is_copied_in_order() -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 4).T
    data = build(4).fill({"weight": weight, "codes": np.zeros(5, np.int8)})
    tensors = {tensor.name: tensor for tensor in onnx.load_from_string(data).graph.initializer}
    np.testing.assert_array_equal(numpy_helper.to_array(tensors["weight"]), weight)


@pytest.mark.parametrize("weight", [np.zeros((4, 2), np.float32), np.zeros((4, 3), np.float64)])
def test_another_shape_or_type_is_refused(weight) -> None:
    with pytest.raises(ValueError, match=r"weight is float.* it must be float32 \(4, 3\)"):
        build(4).fill({"weight": weight, "codes": np.zeros(5, np.int8)})
