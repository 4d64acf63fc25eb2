"""What the settings of SAC and CrossQ have in common."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.actor_critic import ActorCritic
from headrace.algorithms.exploration import Exploration
from headrace.algorithms.sac.exploration import SquashedGaussian, greedy
from headrace.networks.architecture import Architecture, Head
from headrace.types import Array, EnvironmentSpec

__all__ = ["MOST_TEMPERATURE", "GaussianActorCritic"]

MOST_TEMPERATURE = 1e6
"""Limit on the initial temperature."""


@dataclass(frozen=True)
class GaussianActorCritic(ActorCritic, ABC):
    """An algorithm with a squashed Gaussian policy and two critics."""

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """A mean and a log standard deviation for each dimension of the action."""
        return Architecture.of(spec, self.network, self.hidden, head=Head("gaussian", 2 * spec.actions))

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The means after the squashing, tanh(mean) [B, A]."""
        return greedy(output)

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """Samples from the policy."""
        return SquashedGaussian(scale, seed)

    def exploration(self, count: int) -> Sequence[float]:
        """The policy's own standard deviation in each environment."""
        return [1.0] * count
