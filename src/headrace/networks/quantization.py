"""Weights as 8-bit integers."""

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["LARGEST_CODE", "quantize_channels"]

LARGEST_CODE = 127
_BLOCK_WEIGHTS = 1 << 16  # stays in the cache between the passes


def quantize_channels(weight: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Codes [O, I] in [-127, 127] and scales [O] of weights [O, I], so that w = scale * code, within scale / 2.

    Each output channel has the scale max|w| / 127 and no zero point. If a channel is not finite, its codes are
    undefined and its scale is not finite, so that results computed with it are not finite either.
    """
    outputs, inputs = weight.shape
    codes = np.empty((outputs, inputs), np.int8, order="F")  # integer products need [I, O]: this is its transpose
    scale = np.zeros(outputs, np.float32)
    rows = max(1, _BLOCK_WEIGHTS // max(1, inputs))
    tiny = np.finfo(np.float32).tiny
    with np.errstate(invalid="ignore"):
        for begin in range(0, outputs, rows):
            block = np.asarray(weight[begin : begin + rows], np.float32)
            largest = np.maximum(block.max(1, initial=0), -block.min(1, initial=0))
            step = largest / np.float32(LARGEST_CODE)
            step[step < tiny] = 0  # too small a divisor
            scaled = block / np.where(step == 0, np.float32(1), step)[:, None]
            codes[begin : begin + rows] = np.rint(scaled, out=scaled).astype(np.int8)
            scale[begin : begin + rows] = step
    return codes, scale
