"""Settings of deep Dyna-Q."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from headrace.algorithms.config import (
    MOST_BATCH,
    MOST_RATIO,
    MOST_TRANSITIONS,
    ActionKind,
    Tuned,
    require_fractions,
    require_widths,
)
from headrace.algorithms.dqn.config import DQN
from headrace.errors import ConfigError, require
from headrace.fields import require_positive
from headrace.types import EnvironmentSpec

__all__ = ["DynaQ"]

_MOST_PLANNERS = 256
_MOST_MEMBERS = 64
_MOST_ROLLOUT_STEPS = 1_000


@dataclass(frozen=True)
class DynaQ(DQN):
    """DQN whose batches are partly simulated by a world model (Sutton 1990, Dyna-Q); without planning exactly DQN.

    Raises ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "dyna-q"
    summary: ClassVar[str] = "DQN with a world model"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("discrete",)

    planning: bool = True
    """Train a world model and learn from its simulations; without it DQN, for the ablation."""
    planners: int = 1
    """Planner processes (apex), each with its own world model."""
    real_fraction: float = 0.5
    """Real share of each batch; samples_per_step counts real and simulated transitions together."""
    ensemble_size: int = 5
    """Members of the world model (Chua et al. 2018)."""
    model_hidden: tuple[int, ...] = (128, 128)
    """Widths of each member's hidden layers."""
    model_learning_rate: float = 1e-3
    """Step size of each member's optimizer."""
    model_batch_size: int = 256
    """Real transitions in a batch for each member."""
    model_samples_per_step: float = 16.0
    """Real transitions that each member is trained on per environment step."""
    rollout_steps: int = 1
    """Simulated steps from each real state (Janner et al. 2019 call it k)."""
    simulated_per_step: float = 4.0
    """Simulated steps per environment step, over all planners, including gated and dropped ones."""
    rollout_epsilon: float = 0.1
    """Fraction of simulated steps whose action is random."""
    search_control: Literal["prioritized", "uniform"] = "prioritized"
    """Start simulations where the |TD error| is large (Moore, Atkeson 1993), or uniformly."""
    model_error_limit: float = 0.6
    """Simulate only while the error on held-out transitions is at most this; 1 is the error of predicting the mean."""
    disagreement_limit: float = 0.5
    """End a simulation where members differ by more than this, in standard deviations of a state's change."""
    simulated_capacity: int = 20_000
    """Capacity for simulated transitions; the oldest, which the oldest models made, are removed first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "model_learning_rate", "model_error_limit", "disagreement_limit")
        require_positive(self, "planners", most=_MOST_PLANNERS)
        require_positive(self, "model_samples_per_step", "simulated_per_step", most=MOST_RATIO)
        require_positive(self, "rollout_steps", most=_MOST_ROLLOUT_STEPS)
        require_positive(self, "simulated_capacity", most=MOST_TRANSITIONS)
        require_fractions(self, "rollout_epsilon")
        require("real_fraction", self.real_fraction, 0 < self.real_fraction <= 1, "above 0, and at most 1")
        least = "2 or more: the members' disagreement measures their uncertainty"
        require("ensemble_size", self.ensemble_size, self.ensemble_size >= 2, least)
        require_positive(self, "ensemble_size", most=_MOST_MEMBERS)
        require_positive(self, "model_batch_size", most=MOST_BATCH // self.ensemble_size)
        require_widths(self, "model_hidden")
        enough = self.batch_size + self.rollout_steps
        require(
            "simulated_capacity",
            self.simulated_capacity,
            self.simulated_capacity >= enough,
            f"at least {enough}: the batch size, and a simulation",
        )

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.dyna_q.presets import PRESETS

        return PRESETS

    def require_spaces(self, spec: EnvironmentSpec) -> None:
        """Also raises ConfigError if there is a world model and observations are not vectors of floats."""
        super().require_spaces(spec)
        if self.world_model is None:
            return
        if spec.stack > 1 or len(spec.observation_shape) != 1 or not spec.observation_dtype.startswith("float"):
            parts = ", ".join(f"{part.name} {part.dtype} {list(part.shape)}" for part in spec.parts)
            shown = parts or f"{spec.observation_dtype} {[*spec.input_shape]}"
            raise ConfigError(
                f"algorithm is dyna-q, and an observation is {shown}; "
                "its world model takes vectors of floats: dqn, or no planning, is required"
            )

    @property
    def world_model(self) -> "DynaQ | None":
        """These settings, if there is a world model and batches contain simulated transitions; otherwise None."""
        return self if self.planning and self.real_rows < self.batch_size else None

    @property
    def real_rows(self) -> int:
        """Real transitions in each batch: at least one."""
        return max(1, round(self.real_fraction * self.batch_size))
