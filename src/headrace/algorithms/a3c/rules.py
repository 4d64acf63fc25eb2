"""A3C's rules as pure functions. Shapes: everything is [B] unless the rule says otherwise.

The loss is that of Mnih et al. 2016, section 4: L = 1/B sum_b value_weight e_b^2 / 2 - e_b log pi(a_b) - bonus H_b,
with the advantage e = R - V, which is a constant in the second term, and the entropy H. Gradients are those of parts of
L by the network's outputs.
"""

from math import log, pi

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.targets import assert_ranks, softmax

__all__ = [
    "categorical_entropy",
    "categorical_gradient",
    "categorical_log_probability",
    "gaussian_entropy",
    "gaussian_gradient",
    "gaussian_log_probability",
    "n_step_returns",
]

_LOG_2_PI = log(2 * pi)
_Floats = NDArray[np.float32]


def n_step_returns(reward: _Floats, discount: _Floats, bootstrap: _Floats) -> _Floats:
    """R_t = r_t + discount_t R_{t+1}, from the end of a rollout back, all [T, E] (Mnih et al. 2016, algorithm S3).

    A `bootstrap` that is not NaN is the value of the next observation and replaces R_{t+1}: at the last step, and where
    an episode was truncated. `discount` is 0 where an episode terminated.
    """
    assert_ranks(2, reward, discount, bootstrap)
    following = np.zeros_like(reward[0])
    returns = np.empty_like(reward)
    for t in reversed(range(len(reward))):
        following = np.where(np.isnan(bootstrap[t]), following, bootstrap[t])
        following = reward[t] + discount[t] * following
        returns[t] = following
    return returns


def categorical_log_probability(logits: _Floats, action: NDArray[np.int64]) -> _Floats:
    """The log of pi(a), for logits [B, A] and actions [B]."""
    assert_ranks(1, action)
    result: _Floats = softmax(logits).log_probability[np.arange(len(logits)), action]
    return result


def categorical_entropy(logits: _Floats) -> _Floats:
    """H = -sum_a pi(a) log pi(a) for logits [B, A]."""
    probability, log_probability = softmax(logits)
    result: _Floats = -(probability * log_probability).sum(1)
    return result


def categorical_gradient(
    logits: _Floats, action: NDArray[np.int64], advantage: _Floats, entropy_bonus: float
) -> _Floats:
    """The gradient [B, A] of -e log pi(a) - bonus H by the logits.

    It is (e (pi - one_hot(a)) + bonus pi (log pi + H)) / B.
    """
    assert_ranks(1, action, advantage)
    probability, log_probability = softmax(logits)
    gradient = advantage[:, None] * probability
    gradient[np.arange(len(logits)), action] -= advantage
    entropy = categorical_entropy(logits)[:, None]
    gradient += entropy_bonus * probability * (log_probability + entropy)
    return gradient * (1 / len(logits))


def gaussian_log_probability(mean: _Floats, log_sigma: _Floats, action: _Floats) -> _Floats:
    """Log density of actions [B, A] under independent normals with means [B, A] and log standard deviations [A]."""
    assert_ranks(2, mean, action)
    distance = (action - mean) * np.exp(-log_sigma)
    result: _Floats = -(0.5 * distance * distance + log_sigma + 0.5 * _LOG_2_PI).sum(1)
    return result


def gaussian_entropy(log_sigma: _Floats) -> float:
    """H = 1/2 log(2 pi e sigma^2), summed over log standard deviations [A]."""
    assert_ranks(1, log_sigma)
    return float((log_sigma + 0.5 * (1 + _LOG_2_PI)).sum())


def gaussian_gradient(
    mean: _Floats, log_sigma: _Floats, action: _Floats, advantage: _Floats, entropy_bonus: float
) -> tuple[_Floats, _Floats]:
    """The gradients of -e log pi(a) - bonus H by the means [B, A] and by the log standard deviations [A].

    With the distance d = (a - mean) / sigma they are -e d / sigma / B, and the mean of -e (d^2 - 1), less the bonus.
    """
    assert_ranks(1, log_sigma, advantage)
    assert_ranks(2, mean, action)
    precision = np.exp(-log_sigma)
    distance = (action - mean) * precision
    share = advantage * (1 / len(mean))
    by_log_sigma: _Floats = share @ (1 - distance * distance) - entropy_bonus
    by_mean: _Floats = -share[:, None] * distance * precision
    return by_mean, by_log_sigma
