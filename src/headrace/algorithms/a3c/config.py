"""Settings of A3C."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.config import Algorithm, OptimizerName, require_fractions, require_not_negative
from headrace.fields import require_positive

__all__ = ["A3C"]

_MOST_N_STEP = 10_000


@dataclass(frozen=True)
class A3C(Algorithm):
    """Advantage actor-critic (Mnih et al. 2016, algorithm S3): asynchronous with several workers, otherwise A2C.

    Actions are discrete or continuous. Raises ConfigError with the field's name if a value can never work.
    """

    n_step: int = 5
    """Steps of each environment between updates: returns sum up to this many rewards before the bootstrap (t_max)."""
    learning_rate: float = 7e-4
    entropy_bonus: float = 0.01
    """Weight of the policy's entropy, which prevents premature convergence (beta)."""
    value_weight: float = 0.5
    """Weight of the value's squared error in the loss."""
    max_gradient_norm: float = 0.5
    """Gradients are scaled down to at most this norm; 0 is off."""
    trunk: Literal["shared", "separate"] = "shared"
    """shared: policy and value are two heads of one network; separate: two networks."""
    optimizer: OptimizerName = "rmsprop"
    """RMSprop, whose optimizer state the workers share, did best in the paper; the others are as for DQN."""
    optimizer_decay: float = 0.99
    """Decay of RMSprop's running means, or the momentum; the others have none."""
    optimizer_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n_step", most=_MOST_N_STEP)
        require_positive(self, "optimizer_epsilon")
        require_not_negative(self, "entropy_bonus", "value_weight", "max_gradient_norm")
        require_fractions(self, "optimizer_decay")
