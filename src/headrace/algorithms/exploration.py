"""Turns a policy's output into greedy or exploring actions; NumPy only, since actors do not import torch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.networks.records import ILLEGAL
from headrace.types import Array

__all__ = [
    "EpsilonGreedy",
    "Exploration",
    "GaussianNoise",
    "epsilon_ladder",
    "linear_epsilon",
    "random_legal",
    "sigma_ladder",
]


class Exploration(ABC):
    """Chooses actions of E environments, each with its own amount of exploration in `scale`. One thread."""

    def __init__(self, scale: Sequence[float], seed: int | Sequence[int]) -> None:
        self.scale = np.asarray(scale, np.float64)  # [E]
        self.random = np.random.Generator(np.random.PCG64(seed))

    @abstractmethod
    def choose(self, output: NDArray[np.float32]) -> Array:
        """Actions for a policy's outputs [E, *]."""


class EpsilonGreedy(Exploration):
    """The greedy action with probability 1 - scale, otherwise a random action; one epsilon per environment."""

    def choose(self, output: NDArray[np.float32]) -> NDArray[np.int64]:
        """Actions [E] for Q values [E, A]; those of illegal actions are ILLEGAL. Always draws 2 E random numbers."""
        count, actions = output.shape
        draws = self.random.random((2, count))
        explored = random_legal(output, draws[1]) if output.min() == ILLEGAL else (draws[1] * actions).astype(np.int64)
        action: NDArray[np.int64] = np.where(draws[0] < self.scale, explored, output.argmax(1))
        return action


class GaussianNoise(Exploration):
    """The policy's action plus normal noise, clipped to [-1, 1]; one sigma per environment.

    Barth-Maron et al. 2018, algorithm 1 (actor); sigma is in units of half the action's range.
    """

    def choose(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions [E, A] for the policy's actions [E, A]. Always draws E A random numbers."""
        noise = self.scale[:, None] * self.random.standard_normal(output.shape)
        action: NDArray[np.float32] = np.clip(output + noise, -1, 1).astype(np.float32)
        return action


def random_legal(output: NDArray[np.float32], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Legal actions [E] for Q values [E, A] and random numbers [E] in [0, 1), all with the same probability."""
    legal = output != ILLEGAL
    number = np.floor(draws * legal.sum(1))
    action: NDArray[np.int64] = (legal.cumsum(1) > number[:, None]).argmax(1)
    return action


def epsilon_ladder(count: int, base: float, exponent: float) -> list[float]:
    """epsilon_i = base ** (1 + exponent * i / (N - 1)) for N environments (Horgan et al. 2018, section 4.1).

    A single environment gets the middle of the ladder, base ** (1 + exponent / 2).
    """
    if count == 1:
        return [base ** (1 + exponent / 2)]
    return [base ** (1 + exponent * index / (count - 1)) for index in range(count)]


def linear_epsilon(step: int, decay_steps: int, final: float) -> float:
    """From 1 at step 0 linearly to `final` at `decay_steps`, then constant (Mnih et al. 2015)."""
    return max(final, 1 - (1 - final) * step / decay_steps)


def sigma_ladder(count: int, corners: Sequence[float]) -> list[float]:
    """One sigma for each of N environments, evenly spaced along the line through `corners`.

    (0, 0.2) goes from 0 for the first to 0.2 for the last (Krishnan et al. 2022); a single corner is used for all. A
    single environment gets the middle of the line.
    """
    place = np.array([0.5]) if count == 1 else np.linspace(0, 1, count)
    corners = list(corners) * 2 if len(corners) == 1 else list(corners)
    return [float(sigma) for sigma in np.interp(place, np.linspace(0, 1, len(corners)), corners)]
