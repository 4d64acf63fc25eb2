"""Settings that all algorithms have, and those of the ones which learn from replay."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from headrace.errors import require

__all__ = [
    "Algorithm",
    "OffPolicy",
    "OptimizerName",
    "require_fractions",
    "require_not_negative",
    "require_optimizer",
    "require_positive",
]

OptimizerName = Literal["adam", "rmsprop", "centred-rmsprop", "adagrad", "momentum", "sgd"]


@dataclass(frozen=True)
class Algorithm:
    """What acting and publishing need to know of an algorithm; each algorithm adds its own.

    Counts called steps are environment steps; counts called updates are gradient steps of the learner.
    Raises ConfigError, naming the field, where a value can never work.
    """

    network: Literal["auto", "mlp", "nature", "grid", "ong"] = "auto"
    """auto: a CNN for frames and boards (nature, grid), an MLP for the rest; ong: that of Ong et al. 2015."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the MLP's hidden layers, or of the dense layers after the CNN (Nature: 512)."""

    discount: float = 0.99
    learning_rate: float = 1e-3
    clip_rewards: bool = False
    """Train on rewards cut to [-1, 1] (Mnih et al. 2015); scores are always raw."""
    publish_period: int = 20
    """Updates between publications of the policy to the actors (Ape-X; the other topologies need none)."""

    def __post_init__(self) -> None:
        require_positive(self, "publish_period", "learning_rate")
        require_fractions(self, "discount")
        require("hidden", self.hidden, all(width > 0 for width in self.hidden), "widths above 0")
        known = get_args(get_type_hints(Algorithm)["network"])
        require("network", self.network, self.network in known, f"{', '.join(known[:-1])} or {known[-1]}")


@dataclass(frozen=True)
class OffPolicy(Algorithm, ABC):
    """An algorithm that learns from replay."""

    n_step: int = 3
    """Rewards summed before the bootstrap (Sutton 1988; Horgan et al. 2018 use 3)."""
    prioritized: bool = True
    """Sample by |TD error| to the priority exponent (Schaul et al. 2016)."""
    priority_exponent: float = 0.6
    """alpha: 0 samples uniformly."""
    importance_exponent: float = 0.4
    """beta: how far importance weights correct for prioritized sampling."""

    batch_size: int = 256
    target_update_period: int = 200
    """Updates between changes of the target network."""
    target_update_rate: float = 1.0
    """1 copies the network into the target; below 1 averages (Polyak)."""

    replay_capacity: int = 100_000
    """Transitions kept; the oldest go first."""
    replay_bytes: int = 0
    """Memory for experience; 0 is as much as the capacity needs."""
    learning_starts: int = 1_000
    """Transitions stored before the first update."""
    samples_per_step: float = 16.0
    """Replay ratio: transitions sampled per environment step, the same in every topology."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(
            self,
            "n_step",
            "batch_size",
            "replay_capacity",
            "learning_starts",
            "target_update_period",
            "samples_per_step",
        )
        require_not_negative(self, "priority_exponent", "importance_exponent", "replay_bytes")
        require("target_update_rate", self.target_update_rate, 0 < self.target_update_rate <= 1, "in (0, 1]")
        require(
            "replay_capacity",
            self.replay_capacity,
            self.replay_capacity >= max(self.batch_size, self.learning_starts),
            f"at least the batch size ({self.batch_size}) and learning_starts ({self.learning_starts})",
        )

    @property
    def actor_priorities(self) -> bool:
        """Whether actors can tell the |TD error| of what they send."""
        return False

    @abstractmethod
    def exploration(self, count: int) -> Sequence[float]:
        """How far each of N environments of all actors explores, from first to last; fixed for the run."""

    def serial_exploration(self, count: int, step: int) -> Sequence[float]:
        """How far each of N environments explores where it acts and learns in turn, so many steps of all in."""
        return self.exploration(count)


def require_positive(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is not above 0."""
    for field in fields:
        require(field, getattr(config, field), getattr(config, field) > 0, "above 0")


def require_not_negative(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is below 0."""
    for field in fields:
        require(field, getattr(config, field), getattr(config, field) >= 0, "0 or more")


def require_fractions(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is not between 0 and 1."""
    for field in fields:
        require(field, getattr(config, field), 0 <= getattr(config, field) <= 1, "between 0 and 1")


def require_optimizer(name: str) -> None:
    """Raises ConfigError for an optimizer that there is not."""
    known = get_args(OptimizerName)
    require("optimizer", name, name in known, f"{', '.join(known[:-1])} or {known[-1]}")
