"""Settings of DQN and its extensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import (
    ActionKind,
    OffPolicy,
    OptimizerName,
    Tuned,
    require_fractions,
    require_not_negative,
    require_optimizer,
)
from headrace.algorithms.dqn.branches import BranchedEpsilonGreedy, greedy_branches
from headrace.algorithms.exploration import EpsilonGreedy, Exploration, epsilon_ladder, linear_epsilon
from headrace.errors import ConfigError
from headrace.fields import MOST_STEPS, require_positive
from headrace.networks.architecture import Architecture
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater

__all__ = ["DQN"]


@dataclass(frozen=True)
class DQN(OffPolicy):
    """Deep Q-learning; with every switch off it is Mnih et al. 2015.

    Counts called steps are environment steps; counts called updates are gradient steps of the learner. Raises
    ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str] = "dqn"
    summary: ClassVar[str] = "learns action values from replay"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("discrete", "multi-discrete")
    fixed_exploration: ClassVar[tuple[str, ...]] = ("epsilon_base", "epsilon_exponent")
    decaying_exploration: ClassVar[tuple[str, ...]] = ("epsilon_final", "epsilon_decay_steps")

    double: bool = True
    """Choose the bootstrap action with the online network (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Split the network into value and advantage (Wang et al. 2016)."""
    optimizer: OptimizerName = "adam"
    """Adam (Kingma, Ba 2015), RMSprop plain or centered (Graves 2013), AdaGrad (Duchi et al. 2011), SGD or momentum."""
    optimizer_decay: float = 0.95
    """Decay of RMSprop's running means, or the momentum; the others have none."""
    optimizer_epsilon: float = 1e-8
    """Added to the denominator of Adam, RMSprop and AdaGrad."""
    adam_beta1: float = 0.9
    """Decay of the mean gradient in Adam."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of a TD error."""
    max_gradient_norm: float = 10.0
    """Gradients are scaled down to at most this norm; 0 is off."""

    epsilon_final: float = 0.05
    """Epsilon at the end of its linear decay from 1, in every topology except apex."""
    epsilon_decay_steps: int = 10_000
    """Environment steps of epsilon's linear decay."""
    epsilon_base: float = 0.4
    """In apex, environment i of N explores with epsilon_base ** (1 + epsilon_exponent * i / (N - 1))."""
    epsilon_exponent: float = 7.0
    """How unequal that exploration is; 0: all explore with epsilon_base."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "epsilon_decay_steps", most=MOST_STEPS)
        require_positive(self, "optimizer_epsilon")
        require_not_negative(self, "max_gradient_norm", "epsilon_exponent")
        require_fractions(self, "epsilon_final", "epsilon_base")
        require_optimizer(self)

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.dqn.presets import PRESETS

        return PRESETS

    @classmethod
    def frugal_presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.dqn.presets import FRUGAL_PRESETS

        return FRUGAL_PRESETS

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """One Q value for each action, or for each action of each dimension."""
        if spec.branches and self.dueling:
            raise ConfigError(
                f"dueling is true, and an action has {len(spec.branches)} dimensions; false is required: one advantage "
                "stream is centered over the actions of one dimension"
            )
        return Architecture.of(spec, self.network, self.hidden, self.dueling)

    def updater_class(self) -> "type[Updater]":
        """Online and target network."""
        from headrace.algorithms.dqn.updater import DQNUpdater

        return DQNUpdater

    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """The actions with the largest Q values [B, A]: [B], or [B, D] with the largest in each dimension."""
        if spec.branches:
            return greedy_branches(output, spec.branches)
        action: Array = output.argmax(1)
        return action

    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """Epsilon-greedy actions."""
        return BranchedEpsilonGreedy(scale, seed, spec.branches) if spec.branches else EpsilonGreedy(scale, seed)

    def actor_priorities(self, spec: EnvironmentSpec) -> bool:
        """Whether sampling is prioritized and actions have one dimension: a chunk takes one Q value for a step."""
        return self.prioritized and not spec.branches

    def exploration(self, count: int) -> Sequence[float]:
        """Epsilons of Ape-X (Horgan et al. 2018, section 4.1)."""
        return epsilon_ladder(count, self.epsilon_base, self.epsilon_exponent)

    def serial_exploration(self, count: int, step: int) -> Sequence[float]:
        """One decaying epsilon for all (Mnih et al. 2015)."""
        return [linear_epsilon(step, self.epsilon_decay_steps, self.epsilon_final)] * count
