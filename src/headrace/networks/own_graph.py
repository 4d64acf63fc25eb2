"""Builds the policy's graph of a user's network in each precision."""

from collections import Counter
from typing import Any

from headrace.networks.architecture import Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.graph_layers import FullLayers
from headrace.networks.own_network import OwnNetwork

__all__ = ["OWN_OUTPUT", "add_own_nodes"]

OWN_OUTPUT = "own_output"
"""Name of the output in the exported graph."""

_KEEPS_SIGN = {"Flatten", "Reshape", "MaxPool", "Identity"}


def add_own_nodes(network: OwnNetwork, graph: GraphBuilder, layers: FullLayers) -> str:
    """Adds the network's nodes, with its linear layers and parameters in the layers' precision; returns the output."""
    source, shapes = network.model.graph, {each.name: each.shape for each in network.parameters}
    producers = {name: node for node in source.node for name in node.output}
    uses = Counter(name for node in source.node for name in node.input)
    names: dict[str, str] = {}  # of values in the exported graph -> in the new one
    for tensor in source.initializer:
        if tensor.name not in shapes:
            graph.node("Constant", output=tensor.name, value=tensor)
    for node in source.node:
        layer = _linear(node, shapes)
        if layer is not None and uses[f"{layer.name}.weight"] == 1:
            x = node.input[0]
            names[node.output[0]] = layers.dense(names.get(x, x), layer, not _never_negative(x, producers))
            continue
        for name in node.input:
            if name in shapes and name not in names:
                names[name] = layers.parameter(name, shapes[name])
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
        graph.append(node)
    return names.get(OWN_OUTPUT, OWN_OUTPUT)


def _linear(node: Any, shapes: dict[str, tuple[int, ...]]) -> Dense | None:
    """The layer that a node computes, if it is a linear one with parameters NAME.weight and NAME.bias."""
    if node.op_type != "Gemm" or len(node.input) != 3:
        return None
    options = {each.name: each.f if each.name in ("alpha", "beta") else each.i for each in node.attribute}
    weight, bias = node.input[1:]
    name = weight.removesuffix(".weight")
    if weight not in shapes or bias not in shapes or (f"{name}.weight", f"{name}.bias") != (weight, bias):
        return None
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    if plain | options != plain | {"transB": 1}:
        return None
    outputs, inputs = shapes[weight]
    return Dense(name, inputs, outputs, "none")


def _never_negative(name: str, producers: dict[str, Any]) -> bool:
    """Whether a value is a ReLU's output, perhaps in another shape."""
    while name in producers and producers[name].op_type in _KEEPS_SIGN:
        name = producers[name].input[0]
    return name in producers and producers[name].op_type == "Relu"
