"""D4PG's rules as pure functions (Barth-Maron et al. 2018). Gradients are those by networks' outputs.

Shapes: logits and distributions over Z atoms are [B, Z], `weight` is [B], the atoms `support` are [Z].
"""

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.targets import assert_ranks

__all__ = ["cross_entropy", "cross_entropy_gradient", "policy_gradient", "value_gradient"]

_Floats = NDArray[np.float32]


def cross_entropy(log_probability: _Floats, target: _Floats) -> _Floats:
    """-sum_z target_z log p_z: [B]."""
    assert_ranks(2, log_probability, target)
    result: _Floats = -np.einsum("bz,bz->b", target, log_probability)
    return result


def cross_entropy_gradient(probability: _Floats, target: _Floats, weight: _Floats) -> _Floats:
    """The gradient [B, Z] of 1/B sum_b w_b cross entropy_b by the logits, of which `probability` is the softmax.

    It is w_b (p_b - target_b) / B: both distributions sum to 1.
    """
    assert_ranks(1, weight)
    assert_ranks(2, probability, target)
    return (probability - target) * (weight * (1 / len(weight)))[:, None]


def value_gradient(probability: _Floats, support: _Floats) -> _Floats:
    """The gradient [B, Z] of sum_b E_b by the logits, for the values E_b = sum_z p_bz z: p_bz (z - E_b)."""
    assert_ranks(1, support)
    assert_ranks(2, probability)
    return probability * (support - (probability @ support)[:, None])


def policy_gradient(u: _Floats, q_gradient: _Floats, penalty: float) -> _Floats:
    """The gradient [B, A] of penalty mean(u^2) - 1/B sum_b Q(s_b, tanh(u_b)) by u, the input of the policy's tanh.

    `q_gradient` [B, A] is dQ/da. As da/du = 1 - a^2, it is penalty 2 u / (B A) - dQ/da (1 - a^2) / B.
    """
    assert_ranks(2, u, q_gradient)
    action = np.tanh(u)
    gradient: _Floats = (2 * penalty / u.size) * u - q_gradient * (1 - action * action) * (1 / len(u))
    return gradient
