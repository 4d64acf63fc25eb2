"""Settings of CrossQ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import ActionKind, Engine, OffPolicy, Tuned, require_not_negative, require_widths
from headrace.algorithms.exploration import Exploration
from headrace.algorithms.sac.exploration import SquashedGaussian, greedy
from headrace.errors import require
from headrace.fields import MOST_STEPS, require_positive
from headrace.networks.architecture import Architecture, Head
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater
    from headrace.gradients.base import OpenVector

__all__ = ["CrossQ"]

_MOST_TEMPERATURE = 1e6


@dataclass(frozen=True)
class CrossQ(OffPolicy):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605); actions are continuous.

    `hidden` and `learning_rate` are the policy's. There are no target networks, so that the target settings keep their
    defaults. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "crossq"
    summary: ClassVar[str] = "learns a stochastic policy and two critics without targets, normalized by batch"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("continuous",)

    n_step: int = 1
    """Rewards summed before the bootstrap; above 1, the entropy of the steps between is left out of the return."""
    prioritized: bool = False
    learning_rate: float = 1e-3
    learning_starts: int = 5_000
    """Transitions stored before the first update."""
    samples_per_step: float = 256.0
    """Replay ratio: transitions sampled per environment step, the same in every topology; the paper's is one batch."""

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each of the two critics; the paper's are 2,048."""
    critic_learning_rate: float = 1e-3
    policy_update_period: int = 3
    """Updates of the critics for each update of policy and temperature."""
    adam_beta1: float = 0.5
    """Decay of the mean gradient in Adam, for policy, critics and temperature."""
    statistics_momentum: float = 0.99
    """Share of the running statistics that a batch's statistics leave as it is."""
    renormalization_starts: int = 100_000
    """Updates of a network before its batch normalization becomes batch renormalization."""
    initial_temperature: float = 1.0
    """Weight of the entropy in the objective at the first update (alpha); it is learned from there."""
    temperature_learning_rate: float = 1e-3
    """Learning rate of the log temperature."""
    target_entropy: float | None = None
    """Entropy in nats that the temperature is adjusted to; None is minus the number of action dimensions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate", "temperature_learning_rate")
        require_positive(self, "policy_update_period", most=MOST_STEPS)
        require_positive(self, "initial_temperature", most=_MOST_TEMPERATURE)
        require_not_negative(self, "renormalization_starts")
        for name in ("adam_beta1", "statistics_momentum"):
            require(name, getattr(self, name), 0 <= getattr(self, name) < 1, "0 or more and below 1")
        for name in ("target_update_period", "target_update_rate"):
            default = getattr(OffPolicy, name)
            require(name, getattr(self, name), getattr(self, name) == default, "left out: there are no target networks")
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.crossq.presets import PRESETS

        return PRESETS

    @property
    def averages_statistics(self) -> bool:
        """True: those of batch normalization."""
        return True

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """A mean and a log standard deviation for each dimension of the action; normalization is folded in."""
        return Architecture.of(spec, self.network, self.hidden, head=Head("gaussian", 2 * spec.actions))

    def make_updater(
        self,
        spec: EnvironmentSpec,
        device: str,
        seed: int,
        open_vector: "OpenVector | None" = None,
        engine: Engine = "auto",
    ) -> "Updater":
        """Policy, twin critics, temperature, and the running statistics of policy and critics."""
        from headrace.algorithms.crossq.updater import CrossQUpdater

        return CrossQUpdater(self, spec, device, seed, open_vector, engine)

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The means after the squashing, tanh(mean) [B, A]."""
        return greedy(output)

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """Samples from the policy."""
        return SquashedGaussian(scale, seed)

    def exploration(self, count: int) -> Sequence[float]:
        """The policy's own standard deviation in each environment."""
        return [1.0] * count
