"""Settings of soft actor-critic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import ActionKind, Engine, OffPolicy, Tuned, require_widths
from headrace.algorithms.exploration import Exploration
from headrace.algorithms.sac.exploration import SquashedGaussian, greedy
from headrace.errors import require
from headrace.fields import require_positive
from headrace.networks.architecture import Architecture, Head
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater
    from headrace.gradients.base import OpenVector

__all__ = ["SAC"]


_MOST_TEMPERATURE = 1e6


@dataclass(frozen=True)
class SAC(OffPolicy):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "sac"
    summary: ClassVar[str] = "learns a stochastic policy and two critics from replay"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("continuous",)

    n_step: int = 1
    """Rewards summed before the bootstrap; above 1, the entropy of the steps between is left out of the return."""
    prioritized: bool = False
    learning_rate: float = 3e-4
    target_update_period: int = 1
    target_update_rate: float = 0.005
    """1 copies the critics to their targets; below 1 averages (Polyak)."""
    samples_per_step: float = 256.0
    """Replay ratio: transitions sampled per environment step, the same in every topology; the paper's is 256."""

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each of the two critics."""
    critic_learning_rate: float = 3e-4
    initial_temperature: float = 1.0
    """Weight of the entropy in the objective at the first update (alpha); it is learned from there."""
    temperature_learning_rate: float = 3e-4
    """Learning rate of the log temperature."""
    target_entropy: float | None = None
    """Entropy in nats that the temperature is adjusted to; None is minus the number of action dimensions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate", "temperature_learning_rate")
        require_positive(self, "initial_temperature", most=_MOST_TEMPERATURE)
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.sac.presets import PRESETS

        return PRESETS

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """A mean and a log standard deviation for each dimension of the action."""
        return Architecture.of(spec, self.network, self.hidden, head=Head("gaussian", 2 * spec.actions))

    def make_updater(
        self,
        spec: EnvironmentSpec,
        device: str,
        seed: int,
        open_vector: "OpenVector | None" = None,
        engine: Engine = "auto",
    ) -> "Updater":
        """Policy, twin critics with their targets, and temperature."""
        from headrace.algorithms.sac.updater import SACUpdater

        return SACUpdater(self, spec, device, seed, open_vector, engine)

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The means after the squashing, tanh(mean) [B, A]."""
        return greedy(output)

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """Samples from the policy."""
        return SquashedGaussian(scale, seed)

    def exploration(self, count: int) -> Sequence[float]:
        """The policy's own standard deviation in each environment."""
        return [1.0] * count
