"""Parameters in b bits each, by uniform affine quantization, for sending to actors.

    magic "HRPK", version u8, b u8, CRC-32 u32 of everything after it, length u32 of the header
    header: JSON, a list of [name, shape]
    for each tensor of n values in C channels: minima [C] float32, scales [C] float32, ceil(n / 8) * b bytes of codes

A value is minimum + code * scale of its channel. A channel is one output of a weight [O, ...]; a vector is one channel.
Codes are stored in planes: with G = ceil(n / 8), codes j G to (j + 1) G are bits j b to (j + 1) b of G numbers with 8 b
bits. The first bytes of all G numbers come first, then their second bytes, and so on. Everything is little-endian.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import join_bytes
from headrace.errors import CorruptFile, require
from headrace.types import Array

__all__ = ["pack", "unpack"]

_MAGIC = b"HRPK"
_VERSION = 1
_PROLOGUE = struct.Struct("<4sBBII")
_CHECKED_FROM = 10  # the checksum covers only the bytes after it
_BLOCK_VALUES = 1 << 15  # fits in the cache between passes
_PLANES = 8


def pack(weights: Mapping[str, Array], bits: int) -> bytes:
    """Packs parameters in `bits` (2 to 31) bits each, with an error of at most half its channel's scale, for unpack().

    The scale is (max - min) / (2^bits - 1).
    """
    require("bits", bits, 2 <= bits <= 31, "2 to 31")
    header = json.dumps([[name, list(value.shape)] for name, value in weights.items()]).encode()
    parts: list[Any] = [struct.pack("<I", len(header)), header]
    for value in weights.values():
        minimum, scale, codes = _encode(_by_channel(value), bits)
        parts += [minimum.astype("<f4").data, scale.astype("<f4").data, _interleave(codes.reshape(-1), bits).data]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return join_bytes([_PROLOGUE.pack(_MAGIC, _VERSION, bits, checksum, len(header)), *parts[1:]])


def unpack(data: bytes | memoryview) -> dict[str, Array]:
    """The float32 parameters by name; raises CorruptFile if the bytes are not in the format of pack()."""
    data = memoryview(data)
    bits, shapes, begin = _read_header(data)
    weights: dict[str, Array] = {}
    for name, shape in shapes.items():
        channels, values = _channels(shape), prod(shape)
        ends = np.cumsum([begin, 4 * channels, 4 * channels, _plane_size(values) * bits])
        _check(ends[-1] <= len(data), f"{name} ends at byte {ends[-1]} of {len(data)}")
        minimum, scale = (np.frombuffer(data[ends[i] : ends[i + 1]], "<f4") for i in (0, 1))
        planes = np.frombuffer(data[ends[2] : ends[3]], np.uint8).reshape(bits, -1)
        codes = _separate(planes, values, bits)
        weights[name] = _decode(codes.reshape(channels, -1), minimum, scale).reshape(shape)
        begin = int(ends[-1])
    _check(begin == len(data), f"{len(data) - begin} bytes follow the last tensor")
    return weights


def _read_header(data: memoryview) -> tuple[int, dict[str, tuple[int, ...]], int]:
    """Bits, shapes, and the offset of the first tensor."""
    _check(len(data) >= _PROLOGUE.size, f"{len(data)} bytes, fewer than the first {_PROLOGUE.size}")
    magic, version, bits, checksum, length = _PROLOGUE.unpack_from(data)
    _check(magic == _MAGIC, f"they begin with {magic!r}, not {_MAGIC!r}")
    _check(version == _VERSION, f"version is {version}, not {_VERSION}")
    _check(2 <= bits <= 31, f"bits is {bits}, not 2 to 31")
    _check(zlib.crc32(data[_CHECKED_FROM:]) == checksum, "the checksum does not match")
    begin = _PROLOGUE.size + length
    try:
        entries = json.loads(bytes(data[_PROLOGUE.size : begin]))
        shapes = {str(name): tuple(int(size) for size in shape) for name, shape in entries}
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFile(f"packed parameters are corrupt: the header can't be read ({error})") from None
    for name, shape in shapes.items():
        _check(all(size > 0 for size in shape), f"{name} has the shape {list(shape)}")
    return bits, shapes, begin


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise CorruptFile(f"packed parameters are corrupt: {what}")


def _channels(shape: tuple[int, ...]) -> int:
    return shape[0] if len(shape) > 1 else 1


def _by_channel(value: Array) -> Array:
    """[C, n / C]."""
    require("shape", list(value.shape), value.size > 0, "without zeros")
    return np.asarray(value, np.float32).reshape(_channels(value.shape), -1)


def _plane_size(values: int) -> int:
    return -(-values // _PLANES)


def _code_type(bits: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


def _blocks(channels: int, width: int) -> list[slice]:
    rows = max(1, _BLOCK_VALUES // width)
    return [slice(begin, begin + rows) for begin in range(0, channels, rows)]


def _encode(value: Array, bits: int) -> tuple[NDArray[np.float32], NDArray[np.float32], Array]:
    """Minima [C], scales [C] and codes [C, n / C]; uses doubles, since a code may exceed a float's 24 bits."""
    codes = np.empty(value.shape, _code_type(bits))
    minimum = value.min(1)
    with np.errstate(invalid="ignore"):  # parameters that are not finite give scales and values that are not finite
        exact = (value.max(1).astype(np.float64) - minimum) / (2**bits - 1)
        scale = exact.astype(np.float32)
        scale = np.where(scale < exact, np.nextafter(scale, np.float32(np.inf)), scale)  # last code reaches max
        divisor = np.where(scale > 0, scale, np.float32(1)).astype(np.float64)
        for rows in _blocks(*value.shape):
            steps = value[rows].astype(np.float64)
            steps -= minimum[rows, None]
            steps /= divisor[rows, None]
            codes[rows] = np.rint(steps, out=steps)
    return minimum, scale, codes


def _decode(codes: Array, minimum: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    value = np.empty(codes.shape, np.float32)
    with np.errstate(invalid="ignore"):
        for rows in _blocks(*codes.shape):
            steps = codes[rows] * scale[rows, None].astype(np.float64)
            steps += minimum[rows, None]
            value[rows] = steps
    return value


def _interleave(codes: Array, bits: int) -> NDArray[np.uint8]:
    """Bytes [bits, G] of codes [n]."""
    size = _plane_size(len(codes))
    planes = np.zeros((bits, size), np.uint8)
    for number in range(_PLANES):
        plane = codes[number * size : (number + 1) * size]
        for byte, shift in _spans(number, bits):
            part = plane >> shift if shift >= 0 else plane << -shift
            planes[byte, : len(plane)] |= part.astype(np.uint8)
    return planes


def _separate(planes: NDArray[np.uint8], values: int, bits: int) -> Array:
    """Codes [n] of bytes [bits, G]."""
    size = planes.shape[1]
    codes = np.zeros(size * _PLANES, _code_type(bits))
    for number in range(_PLANES):
        code = codes[number * size : (number + 1) * size]
        for byte, shift in _spans(number, bits):
            part = planes[byte].astype(codes.dtype)
            code |= part << shift if shift >= 0 else part >> -shift
    codes &= codes.dtype.type(2**bits - 1)
    return codes[:values]


def _spans(number: int, bits: int) -> list[tuple[int, int]]:
    """The bytes that contain a plane's codes, and the right shift of a code for each of them."""
    begin = number * bits
    return [(byte, 8 * byte - begin) for byte in range(begin // 8, (begin + bits - 1) // 8 + 1)]
