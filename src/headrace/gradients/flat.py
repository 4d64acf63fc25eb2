"""Operations on a flat vector, which may be a NumPy array or a torch tensor on a GPU; they do not import torch."""

from math import isfinite, nan

import numpy as np
from numpy.typing import NDArray

from headrace.types import FlatVector

__all__ = ["clip_norm", "read_vector", "write_vector"]

_SMALLEST_NORM = 1e-6


def read_vector(vector: FlatVector) -> NDArray[np.float32]:
    """A copy of the values [P]."""
    return vector.copy() if isinstance(vector, np.ndarray) else vector.to("cpu", copy=True).numpy()


def write_vector(vector: FlatVector, values: NDArray[np.float32]) -> None:
    """Copies values [P] to the vector."""
    if isinstance(vector, np.ndarray):
        vector[:] = values
    else:
        vector[:] = vector.new_tensor(values)


def clip_norm(gradient: FlatVector, largest: float) -> None:
    """Scales a gradient [P] down to at most this norm (Pascanu et al. 2013); 0 is off.

    A gradient whose norm is not finite becomes NaN: it would otherwise be scaled to 0, and divergence not be noticed.
    """
    if largest > 0:
        squares = np.einsum("i,i", gradient, gradient) if isinstance(gradient, np.ndarray) else gradient.square().sum()
        norm = float(squares) ** 0.5
        if not norm <= largest:
            gradient *= largest / (norm + _SMALLEST_NORM) if isfinite(norm) else nan
