"""Settings of soft actor-critic."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.algorithms.config import Tuned
from headrace.algorithms.sac.actor_critic import GaussianActorCritic

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["SAC"]


@dataclass(frozen=True)
class SAC(GaussianActorCritic):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "sac"
    summary: ClassVar[str] = "learns a stochastic policy and two critics from replay"

    n_step: int = 1
    """Rewards summed before the bootstrap; above 1, the entropy of the steps between is left out of the return."""
    learning_rate: float = 3e-4
    target_update_period: int = 1
    target_update_rate: float = 0.005
    """1 copies the critics to their targets; below 1 averages (Polyak)."""
    samples_per_step: float = 256.0
    """Transitions sampled per environment step (replay ratio × batch size), in every topology; the paper's is 256."""

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.sac.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy, twin critics with their targets, and temperature."""
        from headrace.algorithms.sac.updater import SACUpdater

        return SACUpdater
