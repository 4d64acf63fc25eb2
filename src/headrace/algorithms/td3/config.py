"""Settings of TD3."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import (
    ActionKind,
    OffPolicy,
    Tuned,
    require_not_negative,
    require_sigmas,
    require_widths,
)
from headrace.algorithms.exploration import Exploration, GaussianNoise, sigma_ladder
from headrace.errors import require
from headrace.fields import MOST_STEPS, require_positive
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["TD3"]


@dataclass(frozen=True)
class TD3(OffPolicy):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Standard deviations and limits of noise are in units of half the
    action's range. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "td3"
    summary: ClassVar[str] = "learns a deterministic policy and two critics from replay"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("continuous",)

    n_step: int = 1
    prioritized: bool = False
    learning_rate: float = 3e-4
    target_update_period: int = 2
    """Updates between changes of the target networks, the policy's and the critics'."""
    target_update_rate: float = 0.005
    """1 copies the networks to their targets; below 1 averages (Polyak)."""
    samples_per_step: float = 256.0
    """Replay ratio: transitions sampled per environment step, the same in every topology; the paper's is one batch."""

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each of the two critics."""
    critic_learning_rate: float = 3e-4
    policy_update_period: int = 2
    """Updates of the critics for each update of the policy (d)."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions; 0 is off."""
    target_noise_clip: float = 0.5
    """This noise is clipped to plus or minus this value (c)."""
    sigmas: tuple[float, ...] = (0.1,)
    """Noise of the environments, from first to last: evenly spaced along the line through these values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate")
        require_positive(self, "policy_update_period", most=MOST_STEPS)
        require_not_negative(self, "target_noise", "target_noise_clip")
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")
        require_sigmas(self, "sigmas")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.td3.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy, twin critics and their targets."""
        from headrace.algorithms.td3.updater import TD3Updater

        return TD3Updater

    @property
    def other_widths(self) -> tuple[int, ...]:
        """Those of the critics."""
        return self.critic_hidden

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The policy's actions [B, A], unchanged."""
        return output

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """The policy's actions plus normal noise."""
        return GaussianNoise(scale, seed)

    def exploration(self, count: int) -> Sequence[float]:
        """One sigma per environment."""
        return sigma_ladder(count, self.sigmas)
