"""Update rules as pure functions.

Shapes: q_t and q_tpn are [B, A] Q values of s_t and s_{t+n}; everything else is [B] unless the rule says otherwise.
`reward` is the n-step return sum_{i<n} gamma^i r_{t+i}; `discount` is gamma^n, or 0 if the episode terminated. Each
rule asserts the ranks of its inputs: a [B, 1] would broadcast to [B, B] without an error.
"""

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["assert_ranks", "double_q_target", "huber", "project", "q_target", "squared", "td_error"]


def q_target(reward: Tensor, discount: Tensor, q_tpn: Tensor) -> Tensor:
    """R + gamma^n max_a Q'(s_{t+n}, a), with the target network's Q' (Mnih et al. 2015)."""
    assert_ranks(1, reward, discount)
    assert_ranks(2, q_tpn)
    return reward + discount * q_tpn.amax(1)


def double_q_target(reward: Tensor, discount: Tensor, q_tpn: Tensor, q_tpn_selector: Tensor) -> Tensor:
    """R + gamma^n Q'(s_{t+n}, argmax_a Q(s_{t+n}, a)): the online Q selects (van Hasselt et al. 2016, equation 4)."""
    assert_ranks(1, reward, discount)
    assert_ranks(2, q_tpn, q_tpn_selector)
    selected = q_tpn_selector.argmax(1, keepdim=True)
    return reward + discount * q_tpn.gather(1, selected).squeeze(1)


def td_error(q_t: Tensor, action: Tensor, target: Tensor) -> Tensor:
    """Target - Q(s_t, a_t)."""
    assert_ranks(1, action, target)
    assert_ranks(2, q_t)
    return target - q_t.gather(1, action.unsqueeze(1)).squeeze(1)


def huber(error: Tensor) -> Tensor:
    """error^2 / 2 within 1 of zero, |error| - 1/2 beyond: its gradient is the clipped error of Mnih et al. 2015."""
    return functional.huber_loss(error, error.new_zeros(()).expand_as(error), reduction="none")


def squared(error: Tensor) -> Tensor:
    """error^2 / 2."""
    return 0.5 * error.square()


def project(support: Tensor, probabilities: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Projects a distribution of R + discount z onto the atoms z (Bellemare et al. 2017, algorithm 1).

    `support` [Z] is evenly spaced and increasing; `probabilities` [B, Z] are those of s_{t+n}. Probability between two
    atoms is divided according to its distance from them; probability beyond the ends goes to the end atoms. Returns [B,
    Z].
    """
    assert_ranks(1, support, reward, discount)
    assert_ranks(2, probabilities)
    last = len(support) - 1
    spacing = (support[-1] - support[0]) / last
    value = torch.addcmul(reward.unsqueeze(1), discount.unsqueeze(1), support)  # [B, Z]
    place = ((value - support[0]) / spacing).clamp_(0, last)  # in units of atoms
    lower = place.floor().clamp_(max=last - 1)  # so that lower + 1 is also an atom
    above = (place - lower) * probabilities
    index = lower.long()
    projected = torch.zeros_like(probabilities).scatter_add_(1, index, probabilities - above)
    return projected.scatter_add_(1, index.add_(1), above)


def assert_ranks(rank: int, *tensors: Tensor) -> None:
    """Asserts that every tensor has this rank."""
    for tensor in tensors:
        assert tensor.dim() == rank, f"a tensor has shape {tuple(tensor.shape)}; its rank must be {rank}"
