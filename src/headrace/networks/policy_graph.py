"""The policy as an ONNX graph: what actors and evaluators load, and what `headrace export` writes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from headrace.networks.architecture import Architecture
from headrace.types import Array

__all__ = ["INPUT", "OUTPUT", "PolicyGraph"]

INPUT = "observation"
OUTPUT = "q"
_OPSET = 17
_IR_VERSION = 8


class PolicyGraph:
    """Q values as a function of a batch of observations: `observation` [B, *input] to `q` [B, A] float32.

    The graph is built once; serialize() puts the newest weights in as initializers, which ONNX Runtime packs when a
    session is made (as graph inputs they would cost four times the time per inference).
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}
        self._build()
        element = helper.np_dtype_to_tensor_dtype(np.dtype(architecture.input_dtype))
        shape: list[str | int | None] = ["B", *architecture.input_shape]
        graph = helper.make_graph(
            self._nodes,
            "policy",
            [helper.make_tensor_value_info(INPUT, element, shape)],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["B", architecture.actions])],
            list(self._initializers.values()),
        )
        opset = [helper.make_opsetid("", _OPSET)]
        self._model = helper.make_model(graph, opset_imports=opset, producer_name="headrace")
        self._model.ir_version = _IR_VERSION
        self._initializers = {tensor.name: tensor for tensor in self._model.graph.initializer}

    def serialize(self, weights: Mapping[str, Array]) -> bytes:
        """The graph with these weights: `{layer.weight: [...], layer.bias: [...]}` as the torch module names them."""
        for name, value in weights.items():
            self._initializers[name].raw_data = np.ascontiguousarray(value, np.float32).tobytes()
        data: bytes = self._model.SerializeToString()
        return data

    def _build(self) -> None:
        architecture = self._architecture
        x = self._node("Cast", INPUT, to=TensorProto.FLOAT)
        if architecture.input_dtype == "uint8":
            x = self._node("Mul", x, self._constant("scale", np.float32(1 / 255)))
        if architecture.convolutions:
            x = self._node("Reshape", x, self._constant("image", np.array([-1, *architecture.image_shape], np.int64)))
        for layer in architecture.convolutions:
            self._weight(f"{layer.name}.weight", (layer.outputs, layer.inputs, layer.kernel, layer.kernel))
            self._weight(f"{layer.name}.bias", (layer.outputs,))
            strides = [layer.stride, layer.stride]
            x = self._node("Relu", self._node("Conv", x, f"{layer.name}.weight", f"{layer.name}.bias", strides=strides))
        x = self._stream(self._node("Flatten", x, axis=1), architecture.torso)
        heads = [self._stream(x, head) for head in architecture.heads]
        if architecture.duelling:
            value, advantage = heads
            mean = self._node("ReduceMean", advantage, axes=[1], keepdims=1)
            self._node("Add", value, self._node("Sub", advantage, mean), output=OUTPUT)
        else:
            self._node("Identity", heads[0], output=OUTPUT)

    def _stream(self, x: str, layers: tuple[Any, ...]) -> str:
        for layer in layers:
            self._weight(f"{layer.name}.weight", (layer.outputs, layer.inputs))
            self._weight(f"{layer.name}.bias", (layer.outputs,))
            x = self._node("Gemm", x, f"{layer.name}.weight", f"{layer.name}.bias", transB=1)
            if layer.relu:
                x = self._node("Relu", x)
        return x

    def _node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"x{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, value: Array | np.float32) -> str:
        self._initializers[name] = onnx.numpy_helper.from_array(np.asarray(value), name)
        return name

    def _weight(self, name: str, shape: tuple[int, ...]) -> None:
        self._initializers[name] = onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name)
