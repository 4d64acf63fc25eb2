"""Rules for actions with several dimensions: a branch of Q values for each (Tavakoli et al. 2018), as pure functions.

Shapes: D dimensions, of which dimension d has `branches[d]` actions; q [B, A] has the Q values of all dimensions side
by side, A = sum(branches). An action is [B, D], numbers from 0 in each dimension.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.exploration import Exploration, random_legal
from headrace.algorithms.targets import Loss, assert_ranks
from headrace.networks.records import ILLEGAL

__all__ = ["BranchLoss", "BranchedEpsilonGreedy", "branch_loss", "branch_target", "branch_values", "greedy_branches"]

_Floats = NDArray[np.float32]


class BranchLoss(NamedTuple):
    """The loss of each transition, averaged over its dimensions, and the gradient of the weighted mean by q."""

    value: _Floats  # [B]
    error: _Floats  # [B]: mean |TD error| over the dimensions
    gradient: _Floats  # [B, A]


def greedy_branches(q: _Floats, branches: Sequence[int]) -> NDArray[np.int64]:
    """argmax_a Q_d(s, a) of each dimension [B, D]."""
    assert_ranks(2, q)
    ends = np.cumsum([0, *branches]).tolist()
    return np.stack([q[:, begin:end].argmax(1) for begin, end in pairwise(ends)], 1)


def branch_values(q: _Floats, action: NDArray[np.int64], branches: Sequence[int]) -> _Floats:
    """Q_d(s, a_d) of each dimension [B, D]."""
    assert_ranks(2, q, action)
    return np.take_along_axis(q, _columns(action, branches), 1)


def branch_target(
    reward: _Floats, discount: _Floats, q_tpn: _Floats, q_tpn_selector: _Floats, branches: Sequence[int]
) -> _Floats:
    """R + gamma^n 1/D sum_d Q'_d(s_{t+n}, argmax_a Q_d(s_{t+n}, a)), one target for all dimensions (equation 6)."""
    assert_ranks(1, reward, discount)
    chosen = branch_values(q_tpn, greedy_branches(q_tpn_selector, branches), branches)
    target: _Floats = reward + discount * chosen.mean(1)
    return target


def branch_loss(
    q_t: _Floats,
    action: NDArray[np.int64],
    target: _Floats,
    weight: _Floats,
    loss: Callable[[_Floats], Loss],
    branches: Sequence[int],
) -> BranchLoss:
    """L = 1/B sum_b w_b 1/D sum_d l(target_b - Q_d(s_b, a_bd)) (equation 7) and its gradient by q_t."""
    assert_ranks(1, target, weight)
    error = target[:, None] - branch_values(q_t, action, branches)
    value, slope = loss(error)
    gradient = np.zeros_like(q_t)
    np.put_along_axis(gradient, _columns(action, branches), weight[:, None] * slope / -error.size, 1)
    return BranchLoss(value.mean(1), np.abs(error).mean(1), gradient)


class BranchedEpsilonGreedy(Exploration):
    """The greedy action with probability 1 - scale, otherwise one that is random in every dimension."""

    def __init__(self, scale: Sequence[float], seed: int | Sequence[int], branches: Sequence[int]) -> None:
        super().__init__(scale, seed)
        self._branches = branches

    def choose(self, output: _Floats) -> NDArray[np.int64]:
        """Actions [E, D] for Q values [E, A]; those of illegal actions are ILLEGAL. Always draws E (D + 1) numbers."""
        draws = self.random.random((len(output), len(self._branches) + 1))
        explored = (draws[:, 1:] * self._branches).astype(np.int64)
        if output.min() == ILLEGAL:
            for dimension, (begin, end) in enumerate(pairwise(np.cumsum([0, *self._branches]).tolist())):
                explored[:, dimension] = random_legal(output[:, begin:end], draws[:, dimension + 1])
        exploring = draws[:, :1] < self.scale[:, None]
        action: NDArray[np.int64] = np.where(exploring, explored, greedy_branches(output, self._branches))
        return action


def _columns(action: NDArray[np.int64], branches: Sequence[int]) -> NDArray[np.int64]:
    """Index in q of the actions of each dimension [B, D]."""
    columns: NDArray[np.int64] = action + np.cumsum([0, *branches[:-1]])
    return columns
