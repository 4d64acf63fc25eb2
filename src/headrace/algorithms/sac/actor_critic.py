"""What the settings of SAC and CrossQ have in common."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import OffPolicy, require_widths
from headrace.algorithms.exploration import Exploration
from headrace.algorithms.sac.exploration import SquashedGaussian, greedy
from headrace.errors import require
from headrace.fields import require_positive
from headrace.networks.architecture import Architecture, Head
from headrace.types import Array, EnvironmentSpec

__all__ = ["MOST_TEMPERATURE", "GaussianActorCritic"]

MOST_TEMPERATURE = 1e6
"""Limit on the initial temperature."""


@dataclass(frozen=True)
class GaussianActorCritic(OffPolicy, ABC):
    """An algorithm with a squashed Gaussian policy and two critics.

    The settings of an algorithm come after these two, on the command line and in files.
    """

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each of the two critics."""
    critic_learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate")
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")

    @property
    def other_widths(self) -> tuple[int, ...]:
        """Those of the critics."""
        return self.critic_hidden

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
