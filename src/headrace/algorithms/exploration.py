"""Epsilon-greedy action choice; NumPy only, for actors do not import torch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["EpsilonGreedy", "epsilon_ladder", "linear_epsilon"]


class EpsilonGreedy:
    """The greedy action with probability 1 - epsilon, else any; an epsilon of its own for each environment."""

    def __init__(self, epsilon: Sequence[float], seed: int | Sequence[int]) -> None:
        self.epsilon = np.asarray(epsilon, np.float64)  # [E]
        self.random = np.random.Generator(np.random.PCG64(seed))

    def choose(self, q: NDArray[np.float32]) -> NDArray[np.int64]:
        """Actions [E] for Q values [E, A]. Draws 2 E random numbers whatever they decide."""
        count, actions = q.shape
        draws = self.random.random((2, count))
        explored = (draws[1] * actions).astype(np.int64)
        action: NDArray[np.int64] = np.where(draws[0] < self.epsilon, explored, q.argmax(1))
        return action


def epsilon_ladder(count: int, base: float, exponent: float) -> list[float]:
    """epsilon_i = base ** (1 + exponent * i / (N - 1)) for N environments (Horgan et al. 2018, section 4.1).

    A single environment takes the ladder's middle, base ** (1 + exponent / 2).
    """
    if count == 1:
        return [base ** (1 + exponent / 2)]
    return [base ** (1 + exponent * index / (count - 1)) for index in range(count)]


def linear_epsilon(step: int, decay_steps: int, final: float) -> float:
    """From 1 at step 0 to `final` at `decay_steps` and after (Mnih et al. 2015)."""
    return max(final, 1 - (1 - final) * step / decay_steps)
