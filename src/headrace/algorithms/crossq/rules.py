"""CrossQ's rules as pure functions (Bhatt et al. 2024, arXiv:1902.05605); the others are soft actor-critic's."""

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.targets import assert_ranks, critic_gradient
from headrace.networks.normalized_streams import Limits

__all__ = ["joint_gradient", "renormalization_limits", "statistics_options"]

_RENORMALIZATION = Limits(scale=3.0, shift=5.0)
_Floats = NDArray[np.float32]


def joint_gradient(error: _Floats, weight: _Floats) -> _Floats:
    """The gradient [2B, 2] of L = sum_i 1/B sum_b w_b delta_bi^2 / 2 by the values of a joint batch, Q_i.

    The first B rows are (s_t, a_t): dL/dQ_bi = -w_b delta_bi / B. The others are (s_{t+n}, a'), of which the target is
    made: they are constants, and change the loss only through the statistics of the joint batch.
    """
    assert_ranks(1, weight)
    assert_ranks(2, error)
    return np.concatenate((critic_gradient(error, weight), np.zeros_like(error)))


def renormalization_limits(updates: int, starts: int) -> Limits:
    """Limits of r, 3, and of d, 5, after so many updates; before, plain batch normalization: r = 1 and d = 0."""
    return _RENORMALIZATION if updates >= starts else Limits()


def statistics_options(momentum: float) -> OptimizerOptions:
    """The optimizer of running statistics m whose gradient is m - x: m becomes momentum m + (1 - momentum) x."""
    return OptimizerOptions("sgd", learning_rate=1 - momentum)
