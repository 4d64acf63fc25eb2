"""The layers of a policy's graph, in each of the precisions."""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from headrace.errors import DivergenceError
from headrace.networks.architecture import Convolution, Dense
from headrace.networks.graph_builder import GraphBuilder
from headrace.networks.precision import Precision
from headrace.networks.quantization import LARGEST_CODE, quantize_channels
from headrace.types import Array

__all__ = ["LAYERS", "FullLayers", "HalfLayers", "IntegerLayers", "integer_layer"]

_INTEGER_WIDTH = 64
"""Layers with fewer inputs or outputs stay in fp32: to quantize their input costs as much as there is to gain."""
_LARGEST_HALF = 65504.0


class FullLayers:
    """Weights and arithmetic in float32."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers that a parameter becomes."""
        return {name: np.ascontiguousarray(value, np.float32)}

    def convolution(self, x: str, layer: Convolution) -> str:
        """[B, outputs, H', W'] of [B, inputs, H, W], before the ReLU."""
        weight = self._parameter(f"{layer.name}.weight", (layer.outputs, layer.inputs, layer.kernel, layer.kernel))
        bias = self._parameter(f"{layer.name}.bias", (layer.outputs,))
        return self._graph.node("Conv", x, weight, bias, strides=[layer.stride] * 2, pads=[layer.padding] * 4)

    def dense(self, x: str, layer: Dense, reads_values: bool) -> str:
        """[B, outputs] of [B, inputs], before the activation; `reads_values`: x may be negative or have any units."""
        weight = self._parameter(f"{layer.name}.weight", (layer.outputs, layer.inputs))
        return self._graph.node("Gemm", x, weight, self._parameter(f"{layer.name}.bias", (layer.outputs,)), transB=1)

    def _parameter(self, name: str, shape: tuple[int, ...]) -> str:
        return self._graph.parameter(name, shape, np.float32)


class HalfLayers(FullLayers):
    """Weights in float16, biases and arithmetic in float32: weights are cast when a session is made, not each time.

    Processors without 16-bit multiplication (all x86 that ONNX Runtime has kernels for) would cast at every inference.
    """

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers that a parameter becomes; raises DivergenceError for a weight that float16 can't hold."""
        if value.ndim == 1:
            return super().encode(name, value)
        largest = float(max(value.max(), -value.min()))
        if largest > _LARGEST_HALF:
            raise DivergenceError(
                f"training diverged: a weight of {name} is {largest:g}; it must be at most {_LARGEST_HALF:.0f} with "
                "precision fp16, which holds no more"
            )
        return {name: np.ascontiguousarray(value, np.float16)}

    def _parameter(self, name: str, shape: tuple[int, ...]) -> str:
        if len(shape) == 1:
            return super()._parameter(name, shape)
        return self._graph.node("Cast", self._graph.parameter(name, shape, np.float16), to=TensorProto.FLOAT)


class IntegerLayers(FullLayers):
    """Wide dense layers in integers, the rest in float32: convolutions lose by it (fp32's are three times as fast).

    A layer's input is never negative here (it follows a ReLU, or is an image), and every row of it has a scale of its
    own, max / 127: what becomes of a row does not depend on the others. Products are exact sums in int32. With 127
    levels, not 255, two of them fit in 16 bits (2 * 127 * 127 < 2^15), where processors without VNNI saturate: the
    codes mean the same on every machine.
    """

    def __init__(self, graph: GraphBuilder) -> None:
        super().__init__(graph)
        self._integer: set[str] = set()

    def encode(self, name: str, value: Array) -> Mapping[str, Array]:
        """The initializers that a parameter becomes."""
        if name not in self._integer:
            return super().encode(name, value)
        codes, scale = quantize_channels(value)
        return {f"{name}.codes": codes.T, f"{name}.scale": scale}

    def dense(self, x: str, layer: Dense, reads_values: bool) -> str:
        """[B, outputs] of [B, inputs], before the activation; `reads_values`: x may be negative or have any units."""
        if not integer_layer(layer, reads_values):
            return super().dense(x, layer, reads_values)
        node, name = self._graph.node, f"{layer.name}.weight"
        self._integer.add(name)
        codes = self._graph.parameter(f"{name}.codes", (layer.inputs, layer.outputs), np.int8)
        weight_scale = self._graph.parameter(f"{name}.scale", (layer.outputs,), np.float32)
        bias = self._parameter(f"{layer.name}.bias", (layer.outputs,))
        step = self._graph.constant("step", np.float32(1 / LARGEST_CODE))
        column = self._graph.constant("column", np.array([1], np.int64))
        scale = node("Mul", node("ReduceMax", x, axes=[1], keepdims=1), step)  # [B, 1]
        # A row of zeros has the scale 0: its codes are anything, and 0 times them is what it should be.
        quantized = node("QuantizeLinear", x, node("Squeeze", scale, column), axis=0)
        product = node("Cast", node("MatMulInteger", quantized, codes), to=TensorProto.FLOAT)
        return node("Add", node("Mul", node("Mul", product, weight_scale), scale), bias)


def integer_layer(layer: Dense, reads_values: bool) -> bool:
    """Whether int8 computes this layer in integers.

    One that reads observations other than images is not: they have units of their own, and on a scale that the
    largest of them sets the small ones would be lost.
    """
    return min(layer.inputs, layer.outputs) >= _INTEGER_WIDTH and not reads_values


LAYERS: dict[Precision, type[FullLayers]] = {"fp32": FullLayers, "fp16": HalfLayers, "int8": IntegerLayers}
