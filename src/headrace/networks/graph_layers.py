"""The layers of a policy's graph in each precision."""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from headrace.errors import DivergenceError
from headrace.networks.architecture import Convolution, Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.precision import Precision
from headrace.networks.quantization import LARGEST_CODE, quantize_channels
from headrace.types import Array

__all__ = ["INTEGER_WIDTH", "LAYERS", "FullLayers", "HalfLayers", "IntegerLayers", "integer_layer"]

INTEGER_WIDTH = 64
"""Layers with fewer inputs or outputs stay in fp32: quantizing their input costs as much as it saves."""
_LARGEST_HALF = 65504.0


class FullLayers:
    """Weights and arithmetic in float32."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph
        self.integer: set[str] = set()
        """Weights of layers that are computed in integers."""

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers for a parameter."""
        return {name: np.ascontiguousarray(value, np.float32)}

    def convolution(self, x: str, layer: Convolution) -> str:
        """[B, outputs, H', W'] of [B, inputs, H, W], before the ReLU."""
        weight = self.parameter(f"{layer.name}.weight", (layer.outputs, layer.inputs, layer.kernel, layer.kernel))
        bias = self.parameter(f"{layer.name}.bias", (layer.outputs,))
        return self._graph.node("Conv", x, weight, bias, strides=[layer.stride] * 2, pads=[layer.padding] * 4)

    def dense(self, x: str, layer: Dense, reads_values: bool) -> str:
        """[B, outputs] of [B, inputs], before the activation; `reads_values`: x may be negative or have any units."""
        weight = self.parameter(f"{layer.name}.weight", (layer.outputs, layer.inputs))
        return self._graph.node("Gemm", x, weight, self.parameter(f"{layer.name}.bias", (layer.outputs,)), transB=1)

    def parameter(self, name: str, shape: tuple[int, ...]) -> str:
        """The name of a parameter's float32 value."""
        return self._graph.parameter(name, shape, np.float32)


class HalfLayers(FullLayers):
    """Weights in float16, biases and arithmetic in float32; weights are cast when a session is created.

    Arithmetic in float16 would cast at every inference on processors without 16-bit multiplication, which are all x86
    processors that ONNX Runtime has kernels for.
    """

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers for a parameter; raises DivergenceError for a weight outside the range of float16."""
        if value.ndim < 2:
            return super().encode(name, value)
        largest = float(max(value.max(), -value.min()))
        if largest > _LARGEST_HALF:
            raise DivergenceError(
                f"training diverged: a weight of {name} is {largest:g}; it must be at most {_LARGEST_HALF:.0f} with "
                "precision fp16, which holds no more"
            )
        return {name: np.ascontiguousarray(value, np.float16)}

    def parameter(self, name: str, shape: tuple[int, ...]) -> str:
        """The name of a parameter's value, cast to float32."""
        if len(shape) < 2:
            return super().parameter(name, shape)
        return self._graph.node("Cast", self._graph.parameter(name, shape, np.float16), to=TensorProto.FLOAT)


class IntegerLayers(FullLayers):
    """Wide dense layers in int8, all others in float32 (convolutions are three times as fast in fp32).

    The input of an int8 layer is never negative: it follows a ReLU, is an image or has only categories. Every row has
    its own scale, max / 127, so the result for a row does not depend on the other rows. Sums of products are exact in
    int32. There are 127 levels, not 255, because processors without VNNI add two products in 16 bits with saturation,
    and 2 * 127 * 127 < 2^15: results are the same on every machine.
    """

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers for a parameter."""
        if name not in self.integer:
            return super().encode(name, value)
        codes, scale = quantize_channels(value)
        return {f"{name}.codes": codes.T, f"{name}.scale": scale}

    def dense(self, x: str, layer: Dense, reads_values: bool) -> str:
        """[B, outputs] of [B, inputs], before the activation; `reads_values`: x may be negative or have any units."""
        if not integer_layer(layer, reads_values):
            return super().dense(x, layer, reads_values)
        node, name = self._graph.node, f"{layer.name}.weight"
        self.integer.add(name)
        codes = self._graph.parameter(f"{name}.codes", (layer.inputs, layer.outputs), np.int8)
        weight_scale = self._graph.parameter(f"{name}.scale", (layer.outputs,), np.float32)
        bias = self.parameter(f"{layer.name}.bias", (layer.outputs,))
        step = self._graph.constant("step", np.float32(1 / LARGEST_CODE))
        column = self._graph.constant("column", np.array([1], np.int64))
        scale = node("Mul", node("ReduceMax", x, axes=[1], keepdims=1), step)  # [B, 1]
        # A row of zeros has the scale 0: its codes are arbitrary, and 0 times them is the correct result.
        quantized = node("QuantizeLinear", x, node("Squeeze", scale, column), axis=0)
        product = node("Cast", node("MatMulInteger", quantized, codes), to=TensorProto.FLOAT)
        return node("Add", node("Mul", node("Mul", product, weight_scale), scale), bias)


def integer_layer(layer: Dense, reads_values: bool) -> bool:
    """Whether int8 computes this layer in integers.

    A layer that reads observations other than images is computed in float32: their features have different units, and
    a scale set by the largest feature would round the small ones away.
    """
    return min(layer.inputs, layer.outputs) >= INTEGER_WIDTH and not reads_values


LAYERS: dict[Precision, type[FullLayers]] = {"fp32": FullLayers, "fp16": HalfLayers, "int8": IntegerLayers}
