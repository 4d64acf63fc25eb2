"""Builds an ONNX graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import helper

from headrace.types import Array

__all__ = ["OPSET", "GraphBuilder"]

OPSET = 17
_IR_VERSION = 8


class GraphBuilder:
    """Nodes and initializers in the order in which they were added. Values are identified by name."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds an operator with one output; returns the output's name."""
        output = output or f"x{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def append(self, node: Any) -> None:
        """Adds a node whose inputs and outputs have names."""
        self._nodes.append(node)

    def nodes(self, operator: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Adds an operator with several outputs; returns their names. An empty input is one that is left out."""
        outputs = [f"x{len(self._nodes)}_{index}" for index in range(count)]
        self._nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, name: str, value: Array | np.float32) -> str:
        """Adds a constant unless there is one with that name; returns the name."""
        if name not in self._initializers:
            self._initializers[name] = onnx.numpy_helper.from_array(np.asarray(value), name)
        return name

    def parameter(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> str:
        """Adds an initializer without its data."""
        tensor = onnx.TensorProto(name=name, dims=shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._initializers[name] = tensor
        return name

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The model with these inputs and outputs."""
        graph = helper.make_graph(self._nodes, "policy", inputs, outputs, list(self._initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="headrace")
        model.ir_version = _IR_VERSION
        return model
