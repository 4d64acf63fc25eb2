"""Update rules as pure functions, one each.

Shapes: q_t and q_tpn are [B, A] Q values of s_t and s_{t+n}; everything else is [B]. `reward` is the n-step return
sum_{i<n} gamma^i r_{t+i}, `discount` gamma^n or 0 where the episode terminated.
"""

from torch import Tensor
from torch.nn import functional

__all__ = ["double_q_target", "huber", "q_target", "squared", "td_error"]


def q_target(reward: Tensor, discount: Tensor, q_tpn: Tensor) -> Tensor:
    """R + gamma^n max_a Q'(s_{t+n}, a), of the target network's Q' (Mnih et al. 2015)."""
    return reward + discount * q_tpn.amax(1)


def double_q_target(reward: Tensor, discount: Tensor, q_tpn: Tensor, q_tpn_selector: Tensor) -> Tensor:
    """R + gamma^n Q'(s_{t+n}, argmax_a Q(s_{t+n}, a)): the online Q selects (van Hasselt et al. 2016, equation 4)."""
    selected = q_tpn_selector.argmax(1, keepdim=True)
    return reward + discount * q_tpn.gather(1, selected).squeeze(1)


def td_error(q_t: Tensor, action: Tensor, target: Tensor) -> Tensor:
    """Target - Q(s_t, a_t)."""
    return target - q_t.gather(1, action.unsqueeze(1)).squeeze(1)


def huber(error: Tensor) -> Tensor:
    """error^2 / 2 within 1 of zero, |error| - 1/2 beyond: its gradient is the clipped error of Mnih et al. 2015."""
    return functional.huber_loss(error, error.new_zeros(()).expand_as(error), reduction="none")


def squared(error: Tensor) -> Tensor:
    """error^2 / 2."""
    return 0.5 * error.square()
