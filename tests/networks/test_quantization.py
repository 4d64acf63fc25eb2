"""Weights as 8-bit integers: values worked out by hand, and error bounds."""

import numpy as np
import pytest

from headrace.networks.quantization import quantize_channels


def test_worked_by_hand() -> None:
    """Scales 2.54 / 127 = 0.02 and 12.7 / 127 = 0.1."""
    codes, scale = quantize_channels(np.float32([[2.54, -1, 0.011], [-12.7, 0.24, 0]]))
    np.testing.assert_allclose(scale, [0.02, 0.1], rtol=1e-6)
    np.testing.assert_array_equal(codes, [[127, -50, 1], [-127, 2, 0]])
    assert codes.dtype == np.int8
    assert scale.dtype == np.float32


@pytest.mark.parametrize("shape", [(1, 1), (3, 70_000), (64, 64), (300, 513), (2000, 64)])
def test_error_is_within_half_a_scale(shape) -> None:
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * np.float32(0.03)
    codes, scale = quantize_channels(weight)
    error = np.abs(weight.astype(np.float64) - codes * scale.astype(np.float64)[:, None])
    assert (error <= 0.50001 * scale[:, None]).all()
    np.testing.assert_array_equal(np.abs(codes.astype(int)).max(1), 127)
    np.testing.assert_array_equal(codes, np.rint(weight / scale[:, None]))


def test_halves_are_rounded_to_even() -> None:
    codes, scale = quantize_channels(np.float32([[127, 0.5, 1.5, -0.5, -2.5]]))
    assert scale == [1]
    np.testing.assert_array_equal(codes, [[127, 0, 2, 0, -2]])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_no_weights(shape: tuple[int, int]) -> None:
    codes, scale = quantize_channels(np.zeros(shape, np.float32))
    assert codes.shape == shape
    np.testing.assert_array_equal(scale, np.zeros(shape[0]))


def test_a_channel_of_zeros() -> None:
    codes, scale = quantize_channels(np.float32([[0, -0.0], [1, -1]]))
    np.testing.assert_array_equal(codes, [[0, 0], [127, -127]])
    assert scale[0] == 0


def test_a_channel_too_small_for_a_scale_is_zeros() -> None:
    codes, scale = quantize_channels(np.float32([[1e-44, -3e-38]]))
    assert scale[0] == 0
    np.testing.assert_array_equal(codes * scale[:, None], [[0, 0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("error")
def test_a_channel_that_is_not_finite_does_not_become_finite(bad) -> None:
    _, scale = quantize_channels(np.float32([[bad, 1], [2, 1]]))
    assert not np.isfinite(scale[0])
    assert np.isfinite(scale[1])


def test_transposed_codes_have_the_layout_of_integer_products() -> None:
    codes, _ = quantize_channels(np.ones((5, 3), np.float32))
    assert codes.T.flags.c_contiguous
