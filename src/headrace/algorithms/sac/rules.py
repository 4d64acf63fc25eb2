"""Soft actor-critic's rules as pure functions; equations are those of Haarnoja et al. 2018, arXiv:1812.05905.

Shapes: everything is [B] unless the rule says otherwise. `reward` is the n-step return sum_{i<n} gamma^i r_{t+i};
`discount` is gamma^n, or 0 if the episode terminated.
"""

from math import log, pi

from torch import Tensor
from torch.nn import functional

from headrace.algorithms.sac.exploration import LOG_SIGMA_RANGE
from headrace.algorithms.targets import assert_ranks

__all__ = ["gaussian", "soft_target", "squashed_log_probability", "temperature_loss"]

_LOG_2 = log(2)
_LOG_2_PI = log(2 * pi)


def gaussian(output: Tensor) -> tuple[Tensor, Tensor]:
    """Means and clipped log standard deviations, [B, A] each, from a policy's output [B, 2A]."""
    assert_ranks(2, output)
    mean, log_sigma = output.chunk(2, 1)
    return mean, log_sigma.clamp(*LOG_SIGMA_RANGE)


def squashed_log_probability(noise: Tensor, log_sigma: Tensor, u: Tensor) -> Tensor:
    """Log density of the action tanh(u), u = mean + sigma * noise, all [B, A] (appendix C).

    log pi(a) = sum_j log N(noise_j) - log sigma_j - log(1 - tanh(u_j)^2), where the last logarithm is computed as
    2 (log 2 - u - softplus(-2u)): it stays finite where the tanh is 1 in float32. Taking the noise instead of
    (u - mean) / sigma avoids the difference of nearly equal numbers where sigma is small.
    """
    assert_ranks(2, noise, log_sigma, u)
    normal = -0.5 * (noise.square() + _LOG_2_PI) - log_sigma
    return (normal - 2 * (_LOG_2 - u - functional.softplus(-2 * u))).sum(1)


def soft_target(
    reward: Tensor, discount: Tensor, q_tpn: Tensor, log_probability: Tensor, temperature: Tensor
) -> Tensor:
    """R + gamma^n (min_i Q'_i(s_{t+n}, a) - alpha log pi(a | s_{t+n})) (equations 3 and 5, with the smaller critic).

    `q_tpn` [2, B] and `log_probability` belong to an action sampled at s_{t+n}; `temperature` is a scalar. With n above
    1 this leaves out sum_{0<i<n} gamma^i alpha H(pi(. | s_{t+i})), the entropy of the steps between.
    """
    assert_ranks(0, temperature)
    assert_ranks(1, reward, discount, log_probability)
    assert_ranks(2, q_tpn)
    return reward + discount * (q_tpn.amin(0) - temperature * log_probability)


def temperature_loss(log_temperature: Tensor, log_probability: Tensor, target_entropy: float) -> Tensor:
    """Mean of -log alpha (log pi(a_t | s_t) + target entropy): a scalar (equation 18, with log alpha for alpha).

    Its gradient for log alpha is the entropy in excess of the target. Equation 18 itself would multiply it by alpha,
    and so slow down a small temperature.
    """
    assert_ranks(0, log_temperature)
    assert_ranks(1, log_probability)
    return -(log_temperature * (log_probability.detach() + target_entropy)).mean()
