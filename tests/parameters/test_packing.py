"""Parameters in b bits: exact where they can be, within half a scale elsewhere, tight, and checked."""

import json
import struct
import zlib

import numpy as np
import pytest

from headrace.errors import ConfigError, CorruptFile
from headrace.parameters.packing import pack, unpack

HEAD = 14  # bytes before the JSON


def twin(weight: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest error allowed and scale per channel, in doubles."""
    channels = weight.astype(np.float64).reshape(weight.shape[0] if weight.ndim > 1 else 1, -1)
    scale = (channels.max(1) - channels.min(1)) / (2**bits - 1)
    rounding = np.abs(channels).max(1) * 2.0**-24  # of the result to float32
    return (0.5 * scale * (1 + 1e-6) + rounding).repeat(channels.shape[1]).reshape(weight.shape), scale


@pytest.mark.parametrize("bits", range(2, 32))
def test_round_trip_is_within_half_a_scale(bits) -> None:
    random = np.random.default_rng(bits)
    shapes = {"a.weight": (5, 13), "a.bias": (5,), "b.weight": (3, 2, 3, 3), "one": (1,), "scalar": (), "c": (700, 101)}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    weights = {name: np.asarray(value, np.float32) for name, value in weights.items()}
    back = unpack(pack(weights, bits))
    assert list(back) == list(shapes)
    for name, value in weights.items():
        assert back[name].dtype == np.float32
        assert back[name].shape == value.shape
        assert (np.abs(back[name].astype(np.float64) - value) <= twin(value, bits)[0]).all(), name
    assert np.abs(back["c"] - weights["c"]).max() > 0 or bits > 24


@pytest.mark.parametrize("bits", [2, 3, 5, 8, 11, 16, 17, 23])
def test_values_on_the_grid_are_exact(bits) -> None:
    """A channel's minimum + k / 4, for k = 0, 2^b - 1 and what lies between."""
    largest = 2**bits - 1
    codes = np.random.default_rng(0).integers(0, largest + 1, (4, 37))
    codes[:, 0], codes[:, 1] = 0, largest
    weight = (np.array([[-3], [0], [5], [-0.5]]) + codes / 4).astype(np.float32)
    weight = weight if bits < 22 else (codes / 4).astype(np.float32)  # all of it must be exact in float32
    np.testing.assert_array_equal(unpack(pack({"weight": weight}, bits))["weight"], weight)


def test_bytes_worked_by_hand() -> None:
    """Nine codes of 3 bits, G = 2: plane j is codes 2 j and 2 j + 1; 24 bits of each column, lowest first.

    Column 0: codes 0, 2, 4, 6, 0 -> 0 + 2<<3 + 4<<6 + 6<<9 + 0 = 3344 = 0x0d10. Column 1: 1, 3, 5, 7 -> 0x0f59.
    """
    weight = np.float32([0, 1, 2, 3, 4, 5, 6, 7, 0])
    data = pack({"w": weight}, 3)
    assert data[:6] == b"HRPK\x01\x03"
    header = b'[["w", [9]]]'
    assert data[HEAD:].startswith(header)
    assert data[HEAD + len(header) :] == struct.pack("<ff", 0, 1) + bytes([0x10, 0x59, 0x0D, 0x0F, 0, 0])


@pytest.mark.parametrize("bits", [2, 3, 7, 8, 13, 31])
def test_size(bits) -> None:
    """8 bytes a channel, b bytes for eight values begun, and the header."""
    weights = {"weight": np.ones((10, 33), np.float32), "bias": np.ones(10, np.float32)}
    header = len(json.dumps([["weight", [10, 33]], ["bias", [10]]]))
    assert len(pack(weights, bits)) == HEAD + header + 8 * 10 + 42 * bits + 8 + 2 * bits


def test_each_channel_has_its_own_scale() -> None:
    """A large channel takes nothing from a small one."""
    weight = np.float32([[0, 1e-3, 3e-3], [0, 1e3, 3e3]])
    back = unpack(pack({"weight": weight}, 2))["weight"]
    np.testing.assert_allclose(back, weight, rtol=1e-6)


def test_constant_channels_are_exact() -> None:
    weight = np.float32([[0.1, 0.1], [-7, -7], [0, 0]])
    np.testing.assert_array_equal(unpack(pack({"weight": weight}, 2))["weight"], weight)


@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_do_not_become_finite() -> None:
    back = unpack(pack({"weight": np.float32([[np.nan, 1], [np.inf, 1], [2, 1]])}, 8))["weight"]
    assert not np.isfinite(back[:2]).any()
    np.testing.assert_allclose(back[2], [2, 1])


def test_views_and_memoryviews() -> None:
    weight = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    packed = pack({"weight": weight.T}, 16)
    np.testing.assert_allclose(unpack(memoryview(b"xx" + packed)[2:])["weight"], weight.T, atol=1e-4)


@pytest.mark.parametrize("bits", [-1, 0, 1, 32])
def test_bits_out_of_range_are_refused(bits) -> None:
    with pytest.raises(ConfigError, match=f"bits is {bits}; it must be 2 to 31"):
        pack({"weight": np.ones(3, np.float32)}, bits)


def packed() -> bytes:
    return pack({"weight": np.arange(24, dtype=np.float32).reshape(4, 6), "bias": np.ones(4, np.float32)}, 5)


def test_every_flipped_bit_is_detected() -> None:
    data = packed()
    for index in range(8 * len(data)):
        bad = bytearray(data)
        bad[index // 8] ^= 1 << index % 8
        with pytest.raises(CorruptFile, match="packed parameters are corrupt"):
            unpack(bytes(bad))


def test_every_truncation_is_detected() -> None:
    data = packed()
    for length in range(len(data)):
        with pytest.raises(CorruptFile, match="packed parameters are corrupt"):
            unpack(data[:length])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"not json", "the header can't be read"),
        (b'{"a": 1}', "the header can't be read"),
        (b"[[1, 2]]", "the header can't be read"),
        (b'[["w", [1e999]]]', "the header can't be read"),
        (b"[" * 100_000, "the header can't be read"),
        (b'[["w", [-1]]]', r"w has the shape \[-1\]"),
        (b'[["w", [1, 0]]]', r"w has the shape \[1, 0\]"),
        (b'[["w", [9999999999999, 9999999999999]]]', "w ends at byte"),
        (b"[]", "4 bytes follow the last tensor"),
    ],
)
def test_a_header_with_a_correct_checksum_is_still_checked(header, message) -> None:
    body = struct.pack("<I", len(header)) + header + b"\0\0\0\0"
    with pytest.raises(CorruptFile, match=message):
        unpack(b"HRPK" + struct.pack("<BBI", 1, 8, zlib.crc32(body)) + body)


def test_zeros_in_a_shape_are_refused() -> None:
    with pytest.raises(ConfigError, match="shape"):
        pack({"weight": np.ones((0, 3), np.float32)}, 8)
