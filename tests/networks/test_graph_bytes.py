"""A model's initializers are taken out of its bytes as onnx itself reads them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headrace.networks.graph_bytes import take_initializers

LARGE = {
    "half": np.arange(6_000, dtype=np.float16).reshape(2, 50, 60),
    "codes": np.arange(5_000, dtype=np.int8).reshape(1, 5_000),
    "single": np.linspace(-1, 1, 20_000, dtype=np.float32).reshape(200, 100),
}
LEFT = {"small": np.ones((2, 2), np.float32), "vector": np.arange(2_000, dtype=np.int64)}


def serialized() -> bytes:
    """With the fields in onnx's order."""
    tensors = [numpy_helper.from_array(value, name) for name, value in {**LEFT, **LARGE}.items()]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "graph", [info], [info], tensors)
    data: bytes = helper.make_model(graph, producer_name="headrace").SerializeToString()
    return data


def test_larger_initializers_are_taken_and_the_rest_stays() -> None:
    data = serialized()
    rest, arrays = take_initializers(data)
    assert set(arrays) == set(LARGE)
    for name, value in LARGE.items():
        assert (arrays[name].dtype, arrays[name].flags.aligned) == (value.dtype, True)
        np.testing.assert_array_equal(arrays[name], value)
    model = onnx.load_model_from_string(rest)
    for tensor in model.graph.initializer:
        if tensor.name in LARGE:
            assert (tensor.data_location, tensor.raw_data) == (TensorProto.EXTERNAL, b"")
            assert tuple(tensor.dims) == LARGE[tensor.name].shape
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = arrays[tensor.name].tobytes()
    assert model == onnx.load_model_from_string(data)


@pytest.mark.parametrize("data", [b"not a model", b"\x3a\xff\xff", b"\x3a\x05ab", serialized()[:-1]])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a (field|number)"):
        take_initializers(data)
