"""What the settings of SAC and CrossQ have in common."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.actor_critic import ActorCritic
from headrace.algorithms.exploration import Exploration
from headrace.algorithms.sac.exploration import SquashedGaussian, greedy
from headrace.fields import require_positive
from headrace.networks.architecture import Architecture, Head
from headrace.types import Array, EnvironmentSpec

__all__ = ["GaussianActorCritic"]

_MOST_TEMPERATURE = 1e6


@dataclass(frozen=True)
class GaussianActorCritic(ActorCritic, ABC):
    """An algorithm with a squashed Gaussian policy and two critics."""

    initial_temperature: float = 1.0
    """Weight of the entropy in the objective at the first update (alpha); it is learned from there."""
    temperature_learning_rate: float = 3e-4
    """Learning rate of the log temperature."""
    target_entropy: float | None = None
    """Entropy in nats that the temperature is adjusted to; None is minus the number of action dimensions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "temperature_learning_rate")
        require_positive(self, "initial_temperature", most=_MOST_TEMPERATURE)

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
