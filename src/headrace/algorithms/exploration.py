"""From a policy's output to actions, greedy and exploring; NumPy only, for actors do not import torch."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array, EnvironmentSpec

__all__ = [
    "EpsilonGreedy",
    "Exploration",
    "GaussianNoise",
    "build_exploration",
    "epsilon_ladder",
    "greedy",
    "linear_epsilon",
    "sigma_ladder",
]


class Exploration(Protocol):
    """Chooses actions of E environments, each of which explores as far as its own `scale` says. One thread."""

    scale: NDArray[np.float64]  # [E]
    random: np.random.Generator

    def choose(self, output: NDArray[np.float32]) -> Array:
        """Actions for a policy's outputs [E, A]."""


class EpsilonGreedy:
    """The greedy action with probability 1 - scale, else any; an epsilon of its own for each environment."""

    def __init__(self, scale: Sequence[float], seed: int | Sequence[int]) -> None:
        self.scale = np.asarray(scale, np.float64)  # [E]
        self.random = np.random.Generator(np.random.PCG64(seed))

    def choose(self, output: NDArray[np.float32]) -> NDArray[np.int64]:
        """Actions [E] for Q values [E, A]. Draws 2 E random numbers whatever they decide."""
        count, actions = output.shape
        draws = self.random.random((2, count))
        explored = (draws[1] * actions).astype(np.int64)
        action: NDArray[np.int64] = np.where(draws[0] < self.scale, explored, output.argmax(1))
        return action


class GaussianNoise:
    """The policy's action and normal noise, cut to [-1, 1]; a sigma of its own for each environment.

    Barth-Maron et al. 2018, algorithm 1 (actor); sigma is in units of half the action's range.
    """

    def __init__(self, scale: Sequence[float], seed: int | Sequence[int]) -> None:
        self.scale = np.asarray(scale, np.float64)  # [E]
        self.random = np.random.Generator(np.random.PCG64(seed))

    def choose(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions [E, A] for the policy's actions [E, A]. Draws E A random numbers whatever sigma is."""
        noise = self.scale[:, None] * self.random.standard_normal(output.shape)
        action: NDArray[np.float32] = np.clip(output + noise, -1, 1).astype(np.float32)
        return action


def build_exploration(spec: EnvironmentSpec, scale: Sequence[float], seed: int | Sequence[int]) -> Exploration:
    """Gaussian noise for continuous actions, epsilon-greedy for discrete ones."""
    return GaussianNoise(scale, seed) if spec.continuous else EpsilonGreedy(scale, seed)


def greedy(output: NDArray[np.float32], continuous: bool) -> Array:
    """Actions without exploration for outputs [B, A]: the largest Q [B], or the policy's actions [B, A] themselves."""
    return output if continuous else output.argmax(1)


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


def sigma_ladder(count: int, corners: Sequence[float]) -> list[float]:
    """One sigma for each of N environments, evenly spaced along the line through `corners`.

    (0, 0.2) is from 0 for the first to 0.2 for the last (Krishnan et al. 2022); one corner is the same for all. A
    single environment takes the line's middle.
    """
    place = np.array([0.5]) if count == 1 else np.linspace(0, 1, count)
    corners = list(corners) * 2 if len(corners) == 1 else list(corners)
    return [float(sigma) for sigma in np.interp(place, np.linspace(0, 1, len(corners)), corners)]
