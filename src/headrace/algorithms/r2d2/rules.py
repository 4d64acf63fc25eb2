"""R2D2's update rules as pure functions.

Shapes: B windows, L learned steps, A actions; `steps` [B] is the number of steps after a window's burn-in, of which the
first L, or all if there are fewer, are learned.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.targets import assert_ranks

__all__ = ["Returns", "n_step_returns", "rescale", "unscale", "window_priority"]

_Floats = NDArray[np.float32]
_EPSILON = 1e-3


class Returns(NamedTuple):
    """n-step returns of a window's learned steps, [B, L] each: the target is reward + discount * value(s_bootstrap)."""

    reward: _Floats
    discount: _Floats
    bootstrap: NDArray[np.int64]  # number of the observation after the burn-in
    learned: NDArray[np.bool_]  # whether it is a step and not padding


def rescale(x: _Floats) -> _Floats:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al. 2018, section 3.2)."""
    result: _Floats = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + _EPSILON * x
    return result.astype(np.float32)


def unscale(x: _Floats) -> _Floats:
    """h^-1(x) = sign(x) (((sqrt(1 + 4 epsilon (|x| + 1 + epsilon)) - 1) / (2 epsilon))^2 - 1) (ibid., appendix A).

    In float64: the root is near 1.
    """
    size = np.abs(x).astype(np.float64)
    root = (np.sqrt(1 + 4 * _EPSILON * (size + 1 + _EPSILON)) - 1) / (2 * _EPSILON)
    result: _Floats = (np.sign(x) * (root * root - 1)).astype(np.float32)
    return result


def n_step_returns(
    reward: _Floats, steps: NDArray[np.int64], terminated: NDArray[np.bool_], n: int, discount: float
) -> Returns:
    """Returns of up to n rewards, for `reward` [B, L + n - 1].

    With m = min(n, steps - t): R_t = sum_{i<m} gamma^i r_{t+i}, bootstrapped at t + m with gamma^m, or with 0 if the
    episode terminated there.
    """
    assert_ranks(1, steps, terminated)
    assert_ranks(2, reward)
    count = reward.shape[1] - n + 1
    step = np.arange(count)
    real = np.where(np.arange(reward.shape[1]) < steps[:, None], reward, 0)
    total = np.zeros((len(reward), count), np.float32)
    for i in range(n):
        total += np.float32(discount**i) * real[:, i : i + count]
    length = np.clip(steps[:, None] - step, 0, n)
    bootstrap = step + length
    ends = terminated[:, None] & (bootstrap == steps[:, None])
    factor = np.where(ends, 0, discount**length).astype(np.float32)
    return Returns(total, factor, bootstrap, step < steps[:, None])


def window_priority(error: _Floats, learned: NDArray[np.bool_], mix: float) -> _Floats:
    """P = eta max_t |delta_t| + (1 - eta) mean_t |delta_t| over learned steps, [B].

    Kapturowski et al. 2019, section 2.3.
    """
    assert_ranks(2, error, learned)
    size = np.where(learned, np.abs(error), 0)
    mean = size.sum(1) / np.maximum(1, learned.sum(1))
    priority: _Floats = (mix * size.max(1) + (1 - mix) * mean).astype(np.float32)
    return priority
