"""Settings of TD3."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.algorithms.actor_critic import DeterministicActorCritic
from headrace.algorithms.config import Tuned, require_not_negative
from headrace.fields import MOST_STEPS, require_positive

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["TD3"]


@dataclass(frozen=True)
class TD3(DeterministicActorCritic):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477); actions are continuous.

    `hidden` and `learning_rate` are the policy's. Standard deviations and limits of noise are in units of half the
    action's range. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "td3"
    summary: ClassVar[str] = "learns a deterministic policy and two critics from replay"

    n_step: int = 1
    learning_rate: float = 3e-4
    target_update_period: int = 2
    """Updates between changes of the target networks, the policy's and the critics'."""
    target_update_rate: float = 0.005
    """1 copies the networks to their targets; below 1 averages (Polyak)."""
    samples_per_step: float = 256.0
    """Transitions sampled per environment step (replay ratio × batch size), in all topologies; the paper's: a batch."""

    policy_update_period: int = 2
    """Updates of the critics for each update of the policy (d)."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions; 0 is off."""
    target_noise_clip: float = 0.5
    """This noise is clipped to plus or minus this value (c)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "policy_update_period", most=MOST_STEPS)
        require_not_negative(self, "target_noise", "target_noise_clip")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.td3.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy, twin critics and their targets."""
        from headrace.algorithms.td3.updater import TD3Updater

        return TD3Updater
