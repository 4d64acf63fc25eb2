"""Soft actor-critic's rules as pure functions; equations are those of Haarnoja et al. 2018, arXiv:1812.05905.

Shapes: everything is [B] unless the rule says otherwise. `reward` is the n-step return sum_{i<n} gamma^i r_{t+i};
`discount` is gamma^n, or 0 if the episode terminated. `output` [B, 2A] is the policy's: means and unclipped log
standard deviations. Gradients are those by networks' outputs.
"""

from math import log, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.sac.exploration import LOG_SIGMA_RANGE
from headrace.algorithms.targets import assert_ranks

__all__ = [
    "Sample",
    "policy_gradient",
    "sample",
    "smaller_gradient",
    "soft_target",
    "squashed_log_probability",
    "temperature_gradient",
]

_LOG_2 = log(2)
_LOG_2_PI = log(2 * pi)
_Floats = NDArray[np.float32]


class Sample(NamedTuple):
    """Actions that a policy samples: tanh(u) with u = mean + sigma * noise."""

    action: _Floats  # [B, A]
    log_probability: _Floats  # [B]
    spread: _Floats  # [B, A]: sigma * noise


def sample(output: _Floats, noise: _Floats) -> Sample:
    """Actions for this noise [B, A], with the log standard deviation clipped to its range."""
    assert_ranks(2, output, noise)
    mean, log_sigma = np.split(output, 2, axis=1)
    log_sigma = log_sigma.clip(*LOG_SIGMA_RANGE)
    spread = np.exp(log_sigma) * noise
    u = mean + spread
    return Sample(np.tanh(u), squashed_log_probability(noise, log_sigma, u), spread)


def squashed_log_probability(noise: _Floats, log_sigma: _Floats, u: _Floats) -> _Floats:
    """Log density of the action tanh(u), u = mean + sigma * noise, all [B, A] (appendix C).

    log pi(a) = sum_j log N(noise_j) - log sigma_j - log(1 - tanh(u_j)^2), where the last logarithm is computed as
    2 (log 2 - u - softplus(-2u)): it stays finite where the tanh is 1 in float32. Taking the noise instead of
    (u - mean) / sigma avoids the difference of nearly equal numbers where sigma is small.
    """
    assert_ranks(2, noise, log_sigma, u)
    normal = -0.5 * (noise * noise + _LOG_2_PI) - log_sigma
    slope = 2 * (_LOG_2 - u - np.logaddexp(-2 * u, 0))
    result: _Floats = (normal - slope).sum(1)
    return result


def soft_target(
    reward: _Floats, discount: _Floats, q_tpn: _Floats, log_probability: _Floats, temperature: float
) -> _Floats:
    """R + gamma^n (min_i Q'_i(s_{t+n}, a) - alpha log pi(a | s_{t+n})) (equations 3 and 5, with the smaller critic).

    `q_tpn` [B, 2] and `log_probability` belong to an action sampled at s_{t+n}. With n above 1 this leaves out
    sum_{0<i<n} gamma^i alpha H(pi(. | s_{t+i})), the entropy of the steps between.
    """
    assert_ranks(1, reward, discount, log_probability)
    assert_ranks(2, q_tpn)
    target: _Floats = reward + discount * (q_tpn.min(1) - temperature * log_probability)
    return target


def smaller_gradient(q_t: _Floats) -> _Floats:
    """The gradient [B, 2] of sum_b min_i Q_i(s_b, a_b) by both critics' values [B, 2]: 1 for the smaller one."""
    assert_ranks(2, q_t)
    gradient = np.zeros_like(q_t)
    gradient[np.arange(len(q_t)), q_t.argmin(1)] = 1
    return gradient


def policy_gradient(output: _Floats, sampled: Sample, q_gradient: _Floats, temperature: float) -> _Floats:
    """The gradient [B, 2A] of 1/B sum_b alpha log pi(a_b | s_b) - Q(s_b, a_b) by the policy's output (equation 9).

    `q_gradient` [B, A] is dQ/da. With a = tanh(u), d log pi/du = 2 a and da/du = 1 - a^2:
    dL/d mean = dL/du = (alpha 2 a - dQ/da (1 - a^2)) / B, and dL/d log sigma = dL/du sigma noise - alpha / B, or 0
    where log sigma is clipped.
    """
    assert_ranks(2, output, q_gradient)
    action, _, spread = sampled
    share = 1 / len(output)
    by_mean = (2 * temperature * action - q_gradient * (1 - action * action)) * share
    log_sigma = np.split(output, 2, axis=1)[1]
    least, most = LOG_SIGMA_RANGE
    inside = (log_sigma >= least) & (log_sigma <= most)
    by_log_sigma = (by_mean * spread - temperature * share) * inside
    return np.concatenate((by_mean, by_log_sigma), 1)


def temperature_gradient(log_probability: _Floats, target_entropy: float) -> float:
    """Minus the mean of log pi(a_t | s_t) + target entropy (equation 18, with log alpha for alpha).

    It is the gradient of -log alpha (log pi + target entropy) by log alpha: the entropy in excess of the target.
    Equation 18 itself would multiply it by alpha, and so slow down a small temperature.
    """
    assert_ranks(1, log_probability)
    return -(float(log_probability.mean()) + target_entropy)
