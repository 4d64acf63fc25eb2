"""Settings of DQN and its extensions."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors import require

__all__ = ["DQN"]


@dataclass(frozen=True)
class DQN:
    """Deep Q-learning; with every switch off it is Mnih et al. 2015.

    Counts called steps are environment steps; counts called updates are gradient steps of the learner.
    Raises ConfigError, naming the field, where a value can never work.
    """

    double: bool = True
    """Choose the bootstrap action by the online network (van Hasselt et al. 2016)."""
    duelling: bool = False
    """Split the network into value and advantage (Wang et al. 2016)."""
    n_step: int = 3
    """Rewards summed before the bootstrap (Sutton 1988; Horgan et al. 2018 use 3)."""
    prioritized: bool = True
    """Sample by |TD error| to the priority exponent (Schaul et al. 2016)."""
    priority_exponent: float = 0.6
    """alpha: 0 samples uniformly."""
    importance_exponent: float = 0.4
    """beta: how far importance weights correct for prioritized sampling."""

    network: Literal["auto", "mlp", "nature"] = "auto"
    """auto: the Nature CNN for stacked or single image frames, an MLP for the rest."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the MLP's hidden layers, or of the dense layers after the CNN (Nature: 512)."""

    discount: float = 0.99
    learning_rate: float = 1e-3
    adam_epsilon: float = 1e-8
    batch_size: int = 256
    loss: Literal["huber", "squared"] = "huber"
    max_gradient_norm: float = 10.0
    """Gradients are scaled down to this norm; 0 is off."""
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

    epsilon_final: float = 0.05
    """Exploration of the serial topology at the end of its linear decay from 1; Ape-X uses fixed epsilons."""
    epsilon_decay_steps: int = 10_000
    clip_rewards: bool = False
    """Train on rewards cut to [-1, 1] (Mnih et al. 2015); scores are always raw."""
    publish_period: int = 20
    """Updates between publications of the policy to the actors."""

    def __post_init__(self) -> None:
        for field in (
            "n_step",
            "batch_size",
            "replay_capacity",
            "learning_starts",
            "target_update_period",
            "epsilon_decay_steps",
            "publish_period",
            "learning_rate",
            "adam_epsilon",
            "samples_per_step",
        ):
            require(field, getattr(self, field), getattr(self, field) > 0, "above 0")
        for field in ("priority_exponent", "importance_exponent", "max_gradient_norm", "replay_bytes"):
            require(field, getattr(self, field), getattr(self, field) >= 0, "0 or more")
        for field in ("discount", "epsilon_final"):
            require(field, getattr(self, field), 0 <= getattr(self, field) <= 1, "between 0 and 1")
        require("target_update_rate", self.target_update_rate, 0 < self.target_update_rate <= 1, "in (0, 1]")
        require("hidden", self.hidden, all(width > 0 for width in self.hidden), "widths above 0")
        require("network", self.network, self.network in ("auto", "mlp", "nature"), "auto, mlp or nature")
        require("loss", self.loss, self.loss in ("huber", "squared"), "huber or squared")
        require(
            "replay_capacity",
            self.replay_capacity,
            self.replay_capacity >= max(self.batch_size, self.learning_starts),
            f"at least the batch size ({self.batch_size}) and learning_starts ({self.learning_starts})",
        )
