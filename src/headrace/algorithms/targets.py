"""Update rules as pure functions.

Shapes: q_t and q_tpn are [B, A] Q values of s_t and s_{t+n}; everything else is [B] unless the rule says otherwise.
`reward` is the n-step return sum_{i<n} gamma^i r_{t+i}; `discount` is gamma^n, or 0 if the episode terminated. Each
rule asserts the ranks of its inputs: a [B, 1] would broadcast to [B, B] without an error.

A rule of a loss also gives the loss's gradient by the network's outputs, from which the network computes that by its
parameters.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import project as _project
from headrace._native import softmax as _softmax

__all__ = [
    "Loss",
    "Softmax",
    "assert_ranks",
    "critic_gradient",
    "critic_loss",
    "double_q_target",
    "huber",
    "project",
    "q_gradient",
    "q_target",
    "softmax",
    "squared",
    "td_error",
]

_Floats = NDArray[np.float32]


class Loss(NamedTuple):
    """A loss l of each transition's error, and its derivative l'."""

    value: _Floats  # [B]
    slope: _Floats  # [B]


class Softmax(NamedTuple):
    """p = e^z / sum(e^z) of each row of logits z, and log p."""

    probability: _Floats  # [B, *]
    log_probability: _Floats  # [B, *]


def q_target(reward: _Floats, discount: _Floats, q_tpn: _Floats) -> _Floats:
    """R + gamma^n max_a Q'(s_{t+n}, a), with the target network's Q' (Mnih et al. 2015)."""
    assert_ranks(1, reward, discount)
    assert_ranks(2, q_tpn)
    target: _Floats = reward + discount * q_tpn.max(1)
    return target


def double_q_target(reward: _Floats, discount: _Floats, q_tpn: _Floats, q_tpn_selector: _Floats) -> _Floats:
    """R + gamma^n Q'(s_{t+n}, argmax_a Q(s_{t+n}, a)): the online Q selects (van Hasselt et al. 2016, equation 4)."""
    assert_ranks(1, reward, discount)
    assert_ranks(2, q_tpn, q_tpn_selector)
    target: _Floats = reward + discount * q_tpn[np.arange(len(q_tpn)), q_tpn_selector.argmax(1)]
    return target


def td_error(q_t: _Floats, action: NDArray[np.int64], target: _Floats) -> _Floats:
    """Delta = target - Q(s_t, a_t)."""
    assert_ranks(1, action, target)
    assert_ranks(2, q_t)
    error: _Floats = target - q_t[np.arange(len(q_t)), action]
    return error


def huber(error: _Floats) -> Loss:
    """L = delta^2 / 2 within 1 of zero, |delta| - 1/2 beyond; l' = delta clipped to [-1, 1] (Mnih et al. 2015)."""
    slope = np.clip(error, -1, 1)
    return Loss(slope * (error - 0.5 * slope), slope)


def squared(error: _Floats) -> Loss:
    """L = delta^2 / 2; l' = delta."""
    return Loss(0.5 * error * error, error)


def q_gradient(q_t: _Floats, action: NDArray[np.int64], slope: _Floats, weight: _Floats) -> _Floats:
    """The gradient [B, A] of L = 1/B sum_b w_b l(delta_b) by Q(s_b, a), for slopes l'(delta_b).

    dL/dQ(s_b, a) = -w_b l'(delta_b) / B for the action taken, and 0 for the others: delta falls as Q rises.
    """
    assert_ranks(1, action, slope, weight)
    assert_ranks(2, q_t)
    gradient = np.zeros_like(q_t)
    gradient[np.arange(len(q_t)), action] = weight * slope / -len(q_t)
    return gradient


def critic_loss(error: _Floats, weight: _Floats) -> float:
    """L = sum_i 1/B sum_b w_b delta_bi^2 / 2 of twin critics, for delta = target - Q [B, 2]."""
    assert_ranks(1, weight)
    assert_ranks(2, error)
    return float((weight[:, None] * 0.5 * error * error).mean(0).sum())


def critic_gradient(error: _Floats, weight: _Floats) -> _Floats:
    """The gradient [B, 2] of critic_loss() by Q_i(s_b, a_b): -w_b delta_bi / B (Fujimoto et al. 2018, algorithm 1)."""
    assert_ranks(1, weight)
    assert_ranks(2, error)
    return weight[:, None] * error * (-1 / len(error))


def project(support: _Floats, probabilities: _Floats, reward: _Floats, discount: _Floats) -> _Floats:
    """Projects a distribution of R + discount z onto the atoms z (Bellemare et al. 2017, algorithm 1).

    `support` [Z] is evenly spaced and increasing; `probabilities` [B, Z] are those of s_{t+n}. Probability between two
    atoms is divided according to its distance from them; probability beyond the ends goes to the end atoms. Returns [B,
    Z].
    """
    assert_ranks(1, support, reward, discount)
    assert_ranks(2, probabilities)
    projected = np.empty_like(probabilities)
    _project(support, probabilities, reward, discount, projected)
    return projected


def softmax(logits: _Floats) -> Softmax:
    """The softmax of each row, for logits [B, *]."""
    assert_ranks(2, logits)
    probability, log_probability = np.empty((2, *logits.shape), np.float32)
    _softmax(np.ascontiguousarray(logits), probability, log_probability)
    return Softmax(probability, log_probability)


def assert_ranks(rank: int, *arrays: Any) -> None:
    """Asserts that every array has this rank."""
    for array in arrays:
        assert array.ndim == rank, f"an array has shape {tuple(array.shape)}; its rank must be {rank}"
