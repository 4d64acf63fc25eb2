"""Settings of CrossQ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.algorithms.config import OffPolicy, Tuned, require_decays, require_not_negative
from headrace.algorithms.sac.actor_critic import GaussianActorCritic
from headrace.errors import require
from headrace.fields import MOST_STEPS, require_positive

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["CrossQ"]


@dataclass(frozen=True)
class CrossQ(GaussianActorCritic):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605); actions are continuous.

    `hidden` and `learning_rate` are the policy's. There are no target networks, so that the target settings keep their
    defaults. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "crossq"
    summary: ClassVar[str] = "learns a stochastic policy and two critics without targets, normalized by batch"

    n_step: int = 1
    """Rewards summed before the bootstrap; above 1, the entropy of the steps between is left out of the return."""
    learning_rate: float = 1e-3
    learning_starts: int = 5_000
    """Transitions stored before the first update."""
    samples_per_step: float = 256.0
    """Transitions sampled per environment step (replay ratio × batch size), in all topologies; the paper's: a batch."""

    critic_hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of each of the two critics; the paper's are 2,048."""
    critic_learning_rate: float = 1e-3
    policy_update_period: int = 3
    """Updates of the critics for each update of policy and temperature."""
    adam_beta1: float = 0.5
    """Decay of the mean gradient in Adam, for policy, critics and temperature."""
    statistics_momentum: float = 0.99
    """Momentum of the running statistics: the share that each update keeps; the rest comes from the batch."""
    renormalization_starts: int = 100_000
    """Updates of a network before its batch normalization becomes batch renormalization."""
    temperature_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require("batch_size", self.batch_size, self.batch_size >= 2, "2 or more: networks are normalized by the batch")
        require_positive(self, "policy_update_period", most=MOST_STEPS)
        require_not_negative(self, "renormalization_starts")
        require_decays(self, "adam_beta1", "statistics_momentum")
        for name in ("target_update_period", "target_update_rate"):
            default = getattr(OffPolicy, name)
            require(name, getattr(self, name), getattr(self, name) == default, "left out: there are no target networks")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.crossq.presets import PRESETS

        return PRESETS

    @classmethod
    def frugal_presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.crossq.presets import FRUGAL_PRESETS

        return FRUGAL_PRESETS

    @property
    def statistics_rate(self) -> float:
        """That of batch normalization's statistics."""
        return 1 - self.statistics_momentum

    def updater_class(self) -> "type[Updater]":
        """Policy, twin critics, temperature, and the running statistics of policy and critics."""
        from headrace.algorithms.crossq.updater import CrossQUpdater

        return CrossQUpdater
