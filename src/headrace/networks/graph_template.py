"""A serialized ONNX model with gaps for the parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper

from headrace._native import join_bytes
from headrace.networks.graph_bytes import GRAPH, INITIALIZER, RAW_DATA, field_header
from headrace.types import Array

__all__ = ["GraphTemplate"]


class GraphTemplate:
    """The bytes of a model around its empty initializers: serializing it copies each parameter once.

    This works because a message's fields may come in any order and the length of each is known beforehand.
    """

    def __init__(self, model: Any) -> None:
        """Removes the initializers without data from `model`."""
        empty = [tensor for tensor in model.graph.initializer if not tensor.raw_data]
        for tensor in empty:
            model.graph.initializer.remove(tensor)
        graph = model.graph.SerializeToString()
        model.ClearField("graph")
        self._parts: list[bytes] = [graph]  # the bytes before, between and after the gaps
        gap_bytes = 0
        self._gaps: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
        for tensor in empty:
            dtype, shape = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tuple(tensor.dims)
            size = int(np.prod(shape)) * dtype.itemsize
            head = tensor.SerializeToString() + field_header(RAW_DATA, size)
            self._parts[-1] += field_header(INITIALIZER, len(head) + size) + head
            self._gaps.append((tensor.name, dtype, shape))
            self._parts.append(b"")
            gap_bytes += size
        length = sum(map(len, self._parts)) + gap_bytes
        self._parts[0] = model.SerializeToString() + field_header(GRAPH, length) + self._parts[0]

    def fill(self, arrays: Mapping[str, Array]) -> bytes:
        """The model with these initializers; each must have the shape and type that the model declares."""
        parts: list[bytes | memoryview] = [self._parts[0]]
        for (name, dtype, shape), part in zip(self._gaps, self._parts[1:], strict=True):
            array = arrays[name]
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be {dtype} {shape}")
            parts += [np.ascontiguousarray(array).reshape(-1).data, part]
        return join_bytes(parts)
