"""Settings of D4PG."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.algorithms.actor_critic import DeterministicActorCritic
from headrace.algorithms.config import Tuned, require_not_negative
from headrace.errors import require
from headrace.fields import require_positive

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["D4PG"]

_MOST_ATOMS = 1_024


@dataclass(frozen=True)
class D4PG(DeterministicActorCritic):
    """Distributed distributional deterministic policy gradient (Barth-Maron et al. 2018); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "d4pg"
    summary: ClassVar[str] = "learns a deterministic policy and a distributional critic from replay"

    n_step: int = 5
    learning_rate: float = 1e-4
    target_update_period: int = 100
    samples_per_step: float = 32.0

    critic_hidden: tuple[int, ...] = (512, 512, 256)
    """Widths of the critic's hidden layers, the first of which is followed by LayerNorm and tanh."""
    critic_learning_rate: float = 1e-4
    sigmas: tuple[float, ...] = (0.0, 0.2)
    atoms: int = 51
    """Z: number of values in the critic's distribution, evenly spaced from value_min to value_max."""
    value_min: float = -150.0
    """Discounted returns should be above it."""
    value_max: float = 150.0
    """Discounted returns should be below it."""
    saturation_penalty: float = 0.0
    """Weight, in the policy's loss, of the mean squared input of its tanh (Andrychowicz et al. 2017); 0 is off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_not_negative(self, "saturation_penalty")
        require("atoms", self.atoms, self.atoms >= 2, "2 or more")
        require_positive(self, "atoms", most=_MOST_ATOMS)
        require("value_max", self.value_max, self.value_max > self.value_min, f"above value_min ({self.value_min})")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.d4pg.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy, critic and their targets."""
        from headrace.algorithms.d4pg.updater import D4PGUpdater

        return D4PGUpdater
