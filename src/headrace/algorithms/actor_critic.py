"""What the settings of algorithms with a policy and critics have in common."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import ActionKind, OffPolicy, require_sigmas, require_widths
from headrace.algorithms.exploration import Exploration, GaussianNoise, sigma_ladder
from headrace.errors import require
from headrace.fields import require_positive
from headrace.types import Array, EnvironmentSpec

__all__ = ["ActorCritic", "DeterministicActorCritic"]


@dataclass(frozen=True)
class ActorCritic(OffPolicy, ABC):
    """An algorithm with a policy, whose settings `hidden` and `learning_rate` are, and critics.

    The settings of an algorithm come after these, on the command line and in files.
    """

    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("continuous",)

    prioritized: bool = False

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each critic."""
    critic_learning_rate: float = 3e-4
    """Step size of the critics' optimizer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate")
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")

    def require_spaces(self, spec: EnvironmentSpec) -> None:
        """Raises ConfigError for images as well, which the critics don't take."""
        super().require_spaces(spec)
        if self.own_network:
            return
        kind = self.architecture(spec).kind
        require("network", kind, kind == "mlp", "mlp, which flattens images: the critics take flat observations")

    @property
    def other_widths(self) -> tuple[int, ...]:
        """Those of the critics."""
        return self.critic_hidden


@dataclass(frozen=True)
class DeterministicActorCritic(ActorCritic, ABC):
    """An algorithm whose policy is deterministic; actors add normal noise to its actions."""

    sigmas: tuple[float, ...] = (0.1,)
    """Standard deviations of the action noise, interpolated linearly from the first environment to the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sigmas(self, "sigmas")

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The policy's actions [B, A], unchanged."""
        return output

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """The policy's actions plus normal noise."""
        return GaussianNoise(scale, seed)

    def exploration(self, count: int) -> Sequence[float]:
        """One sigma per environment."""
        return sigma_ladder(count, self.sigmas)
