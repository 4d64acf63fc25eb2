"""The bytes of a serialized ONNX model, without the package onnx, whose import an actor would wait for.

Protocol Buffers: a message is a sequence of fields in any order, each with a number, a type, and if the type is 2 a
length. Field numbers and types of elements are those of onnx.proto.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.types import Array

__all__ = ["GRAPH", "INITIALIZER", "RAW_DATA", "field_header", "take_initializers"]

GRAPH = 7
"""Field of a model."""
INITIALIZER = 5
"""Field of a graph."""
RAW_DATA = 9
"""Field of a tensor."""
_DIMENSIONS, _ELEMENT, _NAME, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 8, 13, 14
_KEY, _VALUE = 1, 2  # of an entry of external data
_NUMBER, _BYTES = 0, 2
_SIZES = {1: 8, 5: 4}
"""Bytes of a field by type, for those of a fixed size."""
_ELEMENTS = {1: "float32", 3: "int8", 10: "float16"}
"""Those of larger parameters."""
_SMALL_BYTES = 4096
"""Initializers up to this size are not worth an array."""


class _Field(NamedTuple):
    number: int
    begin: int
    content: int
    """Where its value begins, after number, type and length."""
    end: int


def field_header(number: int, length: int) -> bytes:
    """The header of a field of type 2: number and type, then the length."""
    return _varint(number << 3 | _BYTES) + _varint(length)


def take_initializers(model: bytes) -> tuple[bytes, dict[str, Array]]:
    """The model without the data of its larger initializers, and these: copies by name.

    In the model their data is external, for which ONNX Runtime requires arrays when it creates a session.
    """
    arrays: dict[str, Array] = {}
    parts = []
    for field in _fields(model, 0, len(model)):
        if field.number == GRAPH:
            graph = b"".join(_without_data(model, each, arrays) for each in _fields(model, field.content, field.end))
            parts.append(field_header(GRAPH, len(graph)) + graph)
        else:
            parts.append(model[field.begin : field.end])
    return b"".join(parts), arrays


def _without_data(model: bytes, field: _Field, arrays: dict[str, Array]) -> bytes:
    """A field of the graph; if it is a larger initializer, `arrays` gets its data."""
    whole = slice(field.begin, field.end)
    if field.number != INITIALIZER or field.end - field.begin <= _SMALL_BYTES:
        return model[whole]
    fields = [*_fields(model, field.content, field.end)]
    parts = {part.number: part for part in fields}
    if not {_NAME, _ELEMENT, RAW_DATA} <= parts.keys():
        return model[whole]
    element = _ELEMENTS.get(_read_varint(model, parts[_ELEMENT].content)[0])
    rest, shape = b"", []
    for part in fields:
        if part.number != RAW_DATA:
            rest += model[part.begin : part.end]
        if part.number == _DIMENSIONS:
            shape.append(_read_varint(model, part.content)[0])
    name, data = parts[_NAME], parts[RAW_DATA]
    size = data.end - data.content
    if element is None or size != math.prod(shape) * np.dtype(element).itemsize:
        return model[whole]
    raw = np.frombuffer(model, np.uint8, size, data.content)  # at any address
    arrays[model[name.content : name.end].decode()] = raw.copy().view(element).reshape(shape)
    tensor = rest + _EXTERNAL
    return field_header(INITIALIZER, len(tensor)) + tensor


def _fields(message: bytes, begin: int, end: int) -> Iterator[_Field]:
    """The fields of the message in these bytes; raises ValueError if they are none."""
    while begin < end:
        key, content = _read_varint(message, begin)
        kind = key & 7
        if kind == _NUMBER:
            _, after = _read_varint(message, content)
        elif kind == _BYTES:
            length, content = _read_varint(message, content)
            after = content + length
        elif kind in _SIZES:
            after = content + _SIZES[kind]
        else:
            raise ValueError(f"a field of type {kind}")
        if after > end:
            raise ValueError("a field ends after its message")
        yield _Field(key >> 3, begin, content, after)
        begin = after


def _read_varint(message: bytes, begin: int) -> tuple[int, int]:
    """A number, 7 bits per byte, and where it ends."""
    value = shift = 0
    for position in range(begin, len(message)):
        value |= (message[position] & 0x7F) << shift
        if message[position] < 0x80:
            return value, position + 1
        shift += 7
    raise ValueError("a number without an end")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _text(number: int, text: bytes) -> bytes:
    return field_header(number, len(text)) + text


_ENTRY = _text(_KEY, b"location") + _text(_VALUE, b"memory")
_EXTERNAL = _text(_EXTERNAL_DATA, _ENTRY) + _varint(_DATA_LOCATION << 3) + _varint(1)
"""Fields of a tensor whose data is external."""
