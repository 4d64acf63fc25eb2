"""A3C's rules as pure functions. Shapes: everything is [B] unless the rule says otherwise."""

from math import log, pi

import torch
from torch import Tensor

__all__ = [
    "categorical_entropy",
    "categorical_log_probability",
    "gaussian_entropy",
    "gaussian_log_probability",
    "n_step_returns",
]

_LOG_2_PI = log(2 * pi)


def n_step_returns(reward: Tensor, discount: Tensor, bootstrap: Tensor) -> Tensor:
    """R_t = r_t + discount_t R_{t+1}, from the end of a rollout back, all [T, E] (Mnih et al. 2016, algorithm S3).

    A `bootstrap` that is not NaN is the value of the next observation and replaces R_{t+1}: at the last step, and where
    an episode was truncated. `discount` is 0 where an episode terminated.
    """
    following = torch.zeros_like(reward[0])
    returns = torch.empty_like(reward)
    for t in reversed(range(len(reward))):
        following = torch.where(bootstrap[t].isnan(), following, bootstrap[t])
        following = reward[t] + discount[t] * following
        returns[t] = following
    return returns


def categorical_log_probability(logits: Tensor, action: Tensor) -> Tensor:
    """The log of pi(a), for logits [B, A] and actions [B]."""
    return logits.log_softmax(1).gather(1, action.unsqueeze(1)).squeeze(1)


def categorical_entropy(logits: Tensor) -> Tensor:
    """-sum_a pi(a) log pi(a) for logits [B, A]."""
    log_probability = logits.log_softmax(1)
    return -(log_probability.exp() * log_probability).sum(1)


def gaussian_log_probability(mean: Tensor, log_sigma: Tensor, action: Tensor) -> Tensor:
    """Log density of actions [B, A] under independent normals with means [B, A] and log standard deviations [A]."""
    distance = (action - mean) * (-log_sigma).exp()
    return -(0.5 * distance.square() + log_sigma + 0.5 * _LOG_2_PI).sum(1)


def gaussian_entropy(log_sigma: Tensor) -> Tensor:
    """1/2 log(2 pi e sigma^2), summed over log standard deviations [A]: a scalar."""
    return (log_sigma + 0.5 * (1 + _LOG_2_PI)).sum()
