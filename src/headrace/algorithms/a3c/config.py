"""Settings of A3C."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import (
    ActionKind,
    OnPolicy,
    OptimizerName,
    Tuned,
    require_not_negative,
    require_optimizer,
)
from headrace.fields import require_positive
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import RolloutPolicy, Updater

__all__ = ["A3C"]


@dataclass(frozen=True)
class A3C(OnPolicy):
    """Advantage actor-critic (Mnih et al. 2016, algorithm S3): asynchronous with several workers, otherwise A2C.

    Actions are discrete or continuous. Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "a3c"
    summary: ClassVar[str] = "learns a policy and a value from rollouts, not with apex"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("discrete", "continuous")
    unused_settings: ClassVar[tuple[str, ...]] = ("chunk_steps",)

    learning_rate: float = 7e-4
    entropy_bonus: float = 0.01
    """Weight of the policy's entropy, which prevents premature convergence (beta)."""
    value_weight: float = 0.5
    """Weight of half the value's squared error in the loss."""
    max_gradient_norm: float = 0.5
    """Gradients are scaled down to at most this norm; 0 is off."""
    trunk: Literal["shared", "separate"] = "shared"
    """shared: policy and value are two heads of one network; separate: two networks."""
    optimizer: OptimizerName = "rmsprop"
    """RMSprop, whose optimizer state the workers share, did best in the paper; the others are as for DQN."""
    optimizer_decay: float = 0.99
    """Decay of RMSprop's running means, or the momentum; the others have none."""
    optimizer_epsilon: float = 1e-5
    """Added to the denominator of Adam, RMSprop and AdaGrad."""
    adam_beta1: float = 0.9
    """Decay of the mean gradient in Adam."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "optimizer_epsilon")
        require_not_negative(self, "entropy_bonus", "value_weight", "max_gradient_norm")
        require_optimizer(self)

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.a3c.presets import PRESETS

        return PRESETS

    def updater_class(self) -> "type[Updater]":
        """Policy and value."""
        from headrace.algorithms.a3c.updater import A3CUpdater

        return A3CUpdater

    def rollout_policy(self, updater: "Updater") -> "RolloutPolicy":
        """The updater itself."""
        from headrace.algorithms.a3c.updater import A3CUpdater

        assert isinstance(updater, A3CUpdater)
        return updater

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The most probable actions: [B] of logits, or the means [B, A]."""
        return output if spec.continuous else output.argmax(1)
