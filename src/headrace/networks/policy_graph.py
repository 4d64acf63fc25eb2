"""The policy as an ONNX graph. Actors and evaluators load it, and `headrace export` writes it."""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from headrace.networks.architecture import Architecture, Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_layers import LAYERS
from headrace.networks.graph_template import GraphTemplate
from headrace.networks.own_graph import add_own_nodes
from headrace.networks.precision import Precision
from headrace.types import Array

__all__ = ["INPUT", "OUTPUT", "PolicyGraph"]

INPUT = "observation"
OUTPUT = "output"


class PolicyGraph:
    """Maps a batch, `observation` [B, *input], to `output` [B, *] float32, such as Q values or actions.

    The graph is built once for one precision. serialize() inserts the newest weights as initializers, which ONNX
    Runtime packs when a session is created (an inference would take four times as long with weights as graph inputs).
    """

    def __init__(self, architecture: Architecture, precision: Precision = "fp32") -> None:
        self._architecture = architecture
        self._graph = GraphBuilder()
        self._layers = LAYERS[precision](self._graph)
        if architecture.own:
            add_own_nodes(architecture.own, self._graph, self._layers, OUTPUT)
        else:
            self._build()
        element = helper.np_dtype_to_tensor_dtype(np.dtype(architecture.input_dtype))
        shape: list[str | int | None] = ["B", *architecture.input_shape]
        model = self._graph.model(
            helper.make_tensor_value_info(INPUT, element, shape),
            helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["B", architecture.head.outputs]),
        )
        self._template = GraphTemplate(model)

    @property
    def integer(self) -> tuple[str, ...]:
        """Names of the weights that are used as integers."""
        return (*sorted(self._layers.integer),)

    def serialize(self, weights: Mapping[str, Array]) -> bytes:
        """The graph with these weights, float32: in the architecture's layout."""
        initializers: dict[str, Array] = {}
        for name, value in weights.items():
            initializers.update(self._layers.encode(name, value))
        return self._template.fill(initializers)

    def _build(self) -> None:
        architecture, node = self._architecture, self._graph.node
        image = architecture.input_dtype == "uint8"
        x = node("Cast", INPUT, to=TensorProto.FLOAT)
        if image:
            x = node("Mul", x, self._graph.constant("scale", np.float32(1 / 255)))
        if architecture.convolutions:
            shape = np.array([-1, *architecture.image_shape], np.int64)
            x = node("Reshape", x, self._graph.constant("image", shape))
        for layer in architecture.convolutions:
            x = node("Relu", self._layers.convolution(x, layer))
            if layer.pool > 1:
                x = node("MaxPool", x, kernel_shape=[layer.pool] * 2, strides=[layer.pool] * 2)
        reads_values = not (image or architecture.convolutions)
        x = self._stream(node("Flatten", x, axis=1), architecture.torso, reads_values)
        reads_values = reads_values and not architecture.torso
        heads = [self._stream(x, head, reads_values) for head in architecture.heads]
        if architecture.dueling:
            value, advantage = heads
            outputs = architecture.head.outputs
            # A - mean(A) as a matrix product: ReduceMean sums a single row in another order than the rows of a batch.
            centering = np.eye(outputs, dtype=np.float32) - np.float32(1 / outputs)
            centered = node("MatMul", advantage, self._graph.constant("centering", centering))
            node("Add", value, centered, output=OUTPUT)
        else:
            node("Identity", heads[0], output=OUTPUT)

    def _stream(self, x: str, layers: tuple[Dense, ...], reads_values: bool) -> str:
        for layer in layers:
            x = self._layers.dense(x, layer, reads_values)
            reads_values = False
            if layer.activation != "none":
                x = self._graph.node("Relu" if layer.activation == "relu" else "Tanh", x)
        return x
