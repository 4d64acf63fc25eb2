"""The policy as an ONNX graph. Actors and evaluators load it, and `headrace export` writes it."""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from headrace.networks.architecture import Architecture, Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_layers import LAYERS
from headrace.networks.graph_template import GraphTemplate
from headrace.networks.precision import Precision
from headrace.types import Array

__all__ = ["INPUT", "NEXT_STATE", "OUTPUT", "STATE", "PolicyGraph"]

INPUT = "observation"
OUTPUT = "output"
STATE = "state"
NEXT_STATE = "next_state"

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Where ONNX's gates, i o f c or z r h, stand in the order of the parameters, i f g o or r z n."""


class PolicyGraph:
    """Maps a batch, `observation` [B, *input], to `output` [B, *] float32, such as Q values or actions.

    A recurrent policy also maps `state` [B, S] to `next_state` [B, S], float32; an episode begins with zeros.

    The graph is built once for one precision. serialize() inserts the newest weights as initializers, which ONNX
    Runtime packs when a session is created (an inference would take four times as long with weights as graph inputs).
    """

    def __init__(self, architecture: Architecture, precision: Precision = "fp32") -> None:
        self._architecture = architecture
        self._graph = GraphBuilder()
        self._layers = LAYERS[precision](self._graph)
        self._build()
        element = helper.np_dtype_to_tensor_dtype(np.dtype(architecture.input_dtype))
        shape: list[str | int | None] = ["B", *architecture.input_shape]
        inputs = [helper.make_tensor_value_info(INPUT, element, shape)]
        outputs = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["B", architecture.head.outputs])]
        if architecture.recurrent:
            size: list[str | int | None] = ["B", architecture.state_size]
            inputs.append(helper.make_tensor_value_info(STATE, TensorProto.FLOAT, size))
            outputs.append(helper.make_tensor_value_info(NEXT_STATE, TensorProto.FLOAT, size))
        model = self._graph.model(inputs, outputs)
        self._template = GraphTemplate(model)

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
        reads_values = (reads_values and not architecture.torso) or architecture.recurrent
        if architecture.recurrent:
            x = self._remember(x)
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

    def _remember(self, x: str) -> str:
        """The recurrent layer's outputs [B, H] of one step's inputs [B, I]."""
        architecture, node, constant = self._architecture, self._graph.node, self._graph.constant
        time = constant("time", np.array([0], np.int64))
        size = architecture.memory
        rows = np.concatenate([np.arange(size) + gate * size for gate in _GATES[architecture.cell]])
        order = constant("gates", rows)
        ordered = []
        for parameter in architecture.recurrence:
            name = self._graph.parameter(parameter.name, parameter.shape, np.float32)
            ordered.append(node("Gather", name, order, axis=0))
        weight, recurrence, *biases = ordered
        bias = node("Concat", *biases, axis=0)
        batched = [node("Unsqueeze", value, time) for value in (x, weight, recurrence, bias)]
        if architecture.cell == "gru":
            initial = node("Unsqueeze", STATE, time)
            _, after = self._graph.nodes("GRU", *batched, "", initial, count=2, hidden_size=size, linear_before_reset=1)
            h = node("Squeeze", after, time)
            node("Identity", h, output=NEXT_STATE)
            return h
        h, c = (node("Unsqueeze", part, time) for part in self._graph.nodes("Split", STATE, count=2, axis=1))
        _, *after_both = self._graph.nodes("LSTM", *batched, "", h, c, count=3, hidden_size=size)
        h, c = (node("Squeeze", part, time) for part in after_both)
        node("Concat", h, c, axis=1, output=NEXT_STATE)
        return h

    def _stream(self, x: str, layers: tuple[Dense, ...], reads_values: bool) -> str:
        for layer in layers:
            x = self._layers.dense(x, layer, reads_values)
            reads_values = False
            if layer.activation != "none":
                x = self._graph.node("Relu" if layer.activation == "relu" else "Tanh", x)
        return x
