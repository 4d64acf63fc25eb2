"""The policy as an ONNX graph. Actors and evaluators load it, and `headrace export` writes it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from headrace.networks.architecture import Architecture, Dense, Encoder
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_layers import LAYERS
from headrace.networks.graph_names import NEXT_STATE, OUTPUT, PARTS, STATE
from headrace.networks.graph_template import GraphTemplate
from headrace.networks.own_graph import add_own_nodes
from headrace.networks.precision import Precision
from headrace.networks.records import ILLEGAL, one_hot
from headrace.types import Array, Part

__all__ = ["PolicyGraph"]

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Where ONNX's gates, i o f c or z r h, stand in the order of the parameters, i f g o or r z n."""


class PolicyGraph:
    """Maps a batch, `observation` [B, *input], to `output` [B, *] float32, such as Q values or actions.

    If observations are records, each part is an input [B, *shape] under its name and in its dtype. The model's metadata
    describes the parts, so that `Policy` can take records. Outputs of actions that the mask excludes are ILLEGAL. A
    recurrent policy also maps `state` [B, S] to `next_state` [B, S], float32; an episode begins with zeros.

    The graph is built once for one precision. serialize() inserts the newest weights as initializers, which ONNX
    Runtime packs when a session is created (an inference would take four times as long with weights as graph inputs).
    """

    def __init__(self, architecture: Architecture, precision: Precision = "fp32") -> None:
        self._architecture = architecture
        self._graph = GraphBuilder()
        self._layers = LAYERS[precision](self._graph)
        self._finish(add_own_nodes(architecture.own, self._graph, self._layers) if architecture.own else self._build())
        inputs = [_value_info(encoder.part) for encoder in architecture.encoders]
        outputs = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["B", architecture.head.outputs])]
        if architecture.recurrent:
            size: list[str | int | None] = ["B", architecture.state_size]
            inputs.append(helper.make_tensor_value_info(STATE, TensorProto.FLOAT, size))
            outputs.append(helper.make_tensor_value_info(NEXT_STATE, TensorProto.FLOAT, size))
        model = self._graph.model(inputs, outputs)
        if architecture.parts:
            helper.set_model_props(model, {PARTS: json.dumps([asdict(part) for part in architecture.parts])})
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

    def _build(self) -> str:
        """The outputs [B, *], before a mask."""
        architecture, node = self._architecture, self._graph.node
        encoders = architecture.encoders
        encoded = [self._encode(encoder) for encoder in encoders]
        x = encoded[0] if len(encoded) == 1 else node("Concat", *encoded, axis=1)
        mixed = len(encoders) > 1 and not all(encoder.part.categories for encoder in encoders)
        reads_values = mixed or any(encoder.reads_values for encoder in encoders)
        x = self._stream(x, architecture.torso, reads_values)
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
            return node("Add", value, centered)
        return heads[0]

    def _finish(self, output: str) -> None:
        """Adds the mask, if there is one, and names the output."""
        architecture, node = self._architecture, self._graph.node
        if architecture.head.masked:
            legal = node("Cast", architecture.encoders[-1].part.name, to=TensorProto.BOOL)
            output = node("Where", legal, output, self._graph.constant("illegal", np.float32(ILLEGAL)))
        node("Identity", output, output=OUTPUT)

    def _encode(self, encoder: Encoder) -> str:
        """A part's features [B, F]."""
        part, node, constant = encoder.part, self._graph.node, self._graph.constant
        if part.categories:
            index, values = one_hot(part)
            flat = node("Flatten", node("Cast", part.name, to=TensorProto.INT64), axis=1)
            chosen = node("Gather", flat, constant(f"{part.name}/index", index), axis=1)
            return node("Cast", node("Equal", chosen, constant(f"{part.name}/value", values)), to=TensorProto.FLOAT)
        x = node("Cast", part.name, to=TensorProto.FLOAT)
        if encoder.scaled:
            x = node("Mul", x, constant("scale", np.float32(1 / 255)))
        if encoder.convolutions and encoder.channels_last:
            *axes, height, width, channels = range(1 + len(part.shape))
            x = node("Transpose", x, perm=[*axes, channels, height, width])
        if encoder.convolutions:
            shape = np.array([-1, *encoder.image_shape], np.int64)
            x = node("Reshape", x, constant(f"{part.name}/image", shape))
        for layer in encoder.convolutions:
            x = node("Relu", self._layers.convolution(x, layer))
            if layer.pool > 1:
                x = node("MaxPool", x, kernel_shape=[layer.pool] * 2, strides=[layer.pool] * 2)
        return node("Flatten", x, axis=1)

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


def _value_info(part: Part) -> Any:
    """An input [B, *shape]."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(part.dtype))
    return helper.make_tensor_value_info(part.name, element, ["B", *part.shape])
