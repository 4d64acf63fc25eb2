"""Munchausen-DQN (Vieillard, Pietquin and Geist 2020, "Munchausen Reinforcement Learning") for Headrace.

DQN with two changes of its target: the policy is a softmax of the Q values, whose entropy is part of the value, and
the reward gets a share of the log probability of the action taken.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headrace import DQN
from headrace.algorithms.config import ActionKind
from headrace.errors import require

if TYPE_CHECKING:
    from headrace.algorithms.dqn.updater import DQNUpdater
    from headrace.types import Array

__all__ = ["MunchausenDQN"]


@dataclass(frozen=True)
class MunchausenDQN(DQN):
    """DQN's settings and those of the paper's equation 1."""

    name: ClassVar[str] = "munchausen-dqn"
    summary: ClassVar[str] = "DQN whose rewards include the log policy"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("discrete",)
    unused_settings: ClassVar[tuple[str, ...]] = ("double",)

    n_step: int = 1
    """The log policy is added to a single reward, so more steps would leave out that of the later ones."""
    temperature: float = 0.03
    """Tau: the policy is softmax(Q / tau)."""
    munchausen_weight: float = 0.9
    """Alpha: share of tau log pi(a | s) that is added to the reward."""
    log_policy_floor: float = -1.0
    """l_0: lower limit of tau log pi(a | s), which is unbounded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require("n_step", self.n_step, self.n_step == 1, "1")
        require("temperature", self.temperature, self.temperature > 0, "above 0")
        require("munchausen_weight", self.munchausen_weight, 0 <= self.munchausen_weight <= 1, "between 0 and 1")
        require("log_policy_floor", self.log_policy_floor, self.log_policy_floor <= 0, "at most 0")

    def updater_class(self) -> "type[DQNUpdater]":
        """DQN's with another target; imported here because actors do without it."""
        from headrace.algorithms.dqn.updater import DQNUpdater
        from headrace.types import Array

        settings = self

        class MunchausenUpdater(DQNUpdater):
            """DQN's gradient step towards the target of equation 1."""

            def target(
                self, observation: Any, next_observation: Any, action: Array, reward: Array, discount: Array
            ) -> Array:
                """Targets [B], all from the target network."""
                tau = settings.temperature
                q_t, q_tp1 = self.target_values(observation), self.target_values(next_observation)
                log_pi_t, log_pi_tp1 = log_softmax(q_t / tau), log_softmax(q_tp1 / tau)
                taken = (tau * log_pi_t[np.arange(len(action)), action]).clip(settings.log_policy_floor, 0)
                soft_value = (np.exp(log_pi_tp1) * (q_tp1 - tau * log_pi_tp1)).sum(1)
                return reward + settings.munchausen_weight * taken + discount * soft_value

        return MunchausenUpdater


def log_softmax(x: "Array") -> "Array":
    """Logarithms of the softmax of each row of x [B, A]."""
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
