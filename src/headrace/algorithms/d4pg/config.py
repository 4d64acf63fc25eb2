"""Settings of D4PG."""

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
from headrace.fields import require_positive
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["D4PG"]

_MOST_ATOMS = 1_024


@dataclass(frozen=True)
class D4PG(OffPolicy):
    """Distributed distributional deterministic policy gradient (Barth-Maron et al. 2018); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "d4pg"
    summary: ClassVar[str] = "learns a deterministic policy and a distributional critic from replay"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("continuous",)

    n_step: int = 5
    prioritized: bool = False
    learning_rate: float = 1e-4
    target_update_period: int = 100
    samples_per_step: float = 32.0

    critic_hidden: tuple[int, ...] = (512, 512, 256)
    """Widths of the critic's hidden layers, the first of which is followed by LayerNorm and tanh."""
    critic_learning_rate: float = 1e-4
    atoms: int = 51
    """Z: number of values in the critic's distribution, evenly spaced from value_min to value_max."""
    value_min: float = -150.0
    value_max: float = 150.0
    saturation_penalty: float = 0.0
    """Weight, in the policy's loss, of the mean squared input of its tanh (Andrychowicz et al. 2017); 0 is off."""
    sigmas: tuple[float, ...] = (0.0, 0.2)
    """Noise of the environments, from first to last: evenly spaced along the line through these values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "critic_learning_rate")
        require_not_negative(self, "saturation_penalty")
        require("critic_hidden", self.critic_hidden, len(self.critic_hidden) > 0, "one width or more")
        require_widths(self, "critic_hidden")
        require("atoms", self.atoms, self.atoms >= 2, "2 or more")
        require_positive(self, "atoms", most=_MOST_ATOMS)
        require("value_max", self.value_max, self.value_max > self.value_min, f"above value_min ({self.value_min})")
        require_sigmas(self, "sigmas")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.d4pg.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy, critic and their targets."""
        from headrace.algorithms.d4pg.updater import D4PGUpdater

        return D4PGUpdater

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
