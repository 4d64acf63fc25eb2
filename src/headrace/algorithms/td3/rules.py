"""TD3's rules as pure functions (Fujimoto et al. 2018, arXiv:1802.09477).

Shapes: actions and noise are [B, A]; everything else is [B] unless the rule says otherwise. Gradients are those by
networks' outputs.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.targets import assert_ranks

__all__ = ["clipped_double_q_target", "policy_gradient", "smoothed_action"]

_Floats = NDArray[np.float32]


def smoothed_action(action: _Floats, noise: _Floats, limit: float) -> _Floats:
    """The target policy's action in [-1, 1] plus noise that is clipped to +-limit (section 5.3, algorithm 1)."""
    assert_ranks(2, action, noise)
    return np.clip(action + np.clip(noise, -limit, limit), -1, 1)


def clipped_double_q_target(reward: _Floats, discount: _Floats, q_tpn: _Floats) -> _Floats:
    """R + gamma^n min_i Q'_i(s_{t+n}, a), for both target critics' values [B, 2] of one action (equation 10).

    `reward` is the n-step return sum_{i<n} gamma^i r_{t+i}; `discount` is gamma^n, or 0 if the episode terminated.
    """
    assert_ranks(1, reward, discount)
    assert_ranks(2, q_tpn)
    target: _Floats = reward + discount * q_tpn.min(1)
    return target


def policy_gradient(q_gradient: _Floats) -> _Floats:
    """The gradient [B, A] of -1/B sum_b Q_1(s_b, a_b) by the policy's actions, for dQ_1/da [B, A] (algorithm 1)."""
    assert_ranks(2, q_gradient)
    return q_gradient * (-1 / len(q_gradient))
