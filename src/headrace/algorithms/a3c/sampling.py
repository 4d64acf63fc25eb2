"""Samples actions from a policy's output; NumPy only."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["sample_categorical", "sample_gaussian"]


def sample_categorical(logits: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.int64]:
    """Actions [B] from the softmax of logits [B, A]: the argmax after Gumbel noise. Draws B A random numbers."""
    action: NDArray[np.int64] = (logits + random.gumbel(size=logits.shape)).argmax(1)
    return action


def sample_gaussian(
    mean: NDArray[np.float32], sigma: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float32]:
    """Unclipped actions [B, A] from normals with means [B, A] and standard deviations [A]. Draws B A random numbers."""
    return (mean + sigma * random.standard_normal(mean.shape)).astype(np.float32)
