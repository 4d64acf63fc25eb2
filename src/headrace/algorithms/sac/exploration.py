"""Turns a Gaussian policy's output into greedy or sampled actions; NumPy only, since actors do not import torch."""

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.exploration import Exploration

__all__ = ["LOG_SIGMA_RANGE", "SquashedGaussian", "greedy"]

LOG_SIGMA_RANGE = (-20.0, 2.0)
"""The log standard deviation is clipped to this range (that of the code published with Haarnoja et al. 2018).

The clip is hard: inside the range it is the identity, so that an untrained head, whose outputs are near 0, explores
with standard deviations near 1. A tanh scaled to the range would turn an output of 0 into exp(-9).
"""


class SquashedGaussian(Exploration):
    """Samples tanh(mean + scale * sigma * noise); one scale per environment, where 1 samples the policy itself."""

    def choose(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions [E, A] for means and log standard deviations [E, 2A]. Always draws E A random numbers."""
        mean, log_sigma = np.split(output, 2, axis=1)
        sigma = self.scale[:, None] * np.exp(log_sigma.clip(*LOG_SIGMA_RANGE))
        action: NDArray[np.float32] = np.tanh(mean + sigma * self.random.standard_normal(mean.shape)).astype(np.float32)
        return action


def greedy(output: NDArray[np.float32]) -> NDArray[np.float32]:
    """tanh(mean) [B, A] for means and log standard deviations [B, 2A]."""
    action: NDArray[np.float32] = np.tanh(np.split(output, 2, axis=1)[0])
    return action
