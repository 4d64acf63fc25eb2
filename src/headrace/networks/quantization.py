"""Weights as 8-bit integers."""

import numpy as np
from numpy.typing import NDArray

from headrace._native import LARGEST_CODE, quantize
from headrace.types import Array

__all__ = ["LARGEST_CODE", "quantize_channels"]


def quantize_channels(weight: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Codes [O, I] in [-127, 127] and scales [O] of weights [O, I], so that w = scale * code, within scale / 2.

    Each output channel has the scale max|w| / 127 and no zero point. If a channel is not finite, its codes are
    undefined and its scale is not finite, so that results computed with it are not finite either.
    """
    outputs, inputs = weight.shape
    codes = np.empty((inputs, outputs), np.int8)  # as integer products need them
    scale = np.empty(outputs, np.float32)
    quantize(np.require(weight, np.float32, ["C", "ALIGNED"]), codes, scale)
    return codes.T, scale
