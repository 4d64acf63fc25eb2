"""What an updater learns: networks' parameters in flat vectors, their targets, and their state in a checkpoint."""

import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from headrace._native import OptimizerOptions
from headrace.algorithms.config import OptimizerName
from headrace.errors import CheckpointError
from headrace.gradients.base import ParameterVector
from headrace.gradients.flat import read_vector, write_vector
from headrace.networks.layout import Layout
from headrace.types import Array, FlatVector

__all__ = ["Follower", "Learned", "Target", "adam", "optimizer_options"]

_RANDOM, _UPDATES = "random", "updates"  # names in a checkpoint that are not of a target or vector


class _OptimizerSettings(Protocol):
    """The settings of an algorithm with one optimizer."""

    @property
    def optimizer(self) -> OptimizerName: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def optimizer_decay(self) -> float: ...
    @property
    def optimizer_epsilon(self) -> float: ...
    @property
    def adam_beta1(self) -> float: ...


def adam(learning_rate: float) -> OptimizerOptions:
    """Options of Adam with its default decays."""
    return OptimizerOptions("adam", learning_rate=learning_rate)


def optimizer_options(config: _OptimizerSettings) -> OptimizerOptions:
    """Options of the optimizer in the settings."""
    return OptimizerOptions(
        config.optimizer,
        learning_rate=config.learning_rate,
        decay=config.optimizer_decay,
        epsilon=config.optimizer_epsilon,
        beta1=config.adam_beta1,
    )


class Target(NamedTuple):
    """A target network's parameters."""

    layout: Layout
    vector: FlatVector  # [P]
    online: FlatVector  # [P], the parameters that it follows

    @staticmethod
    def of(layout: Layout, online: FlatVector) -> "Target":
        """A copy of the online network's parameters, on their device."""
        return Target(layout, online.copy() if isinstance(online, np.ndarray) else online.clone(), online)


class Learned(NamedTuple):
    """Everything that an updater changes, by its names in a checkpoint: target networks and parameter vectors."""

    targets: Mapping[str, Target]
    vectors: Mapping[str, ParameterVector]
    random: np.random.Generator | None = None
    """Draws the noise of the updates, if they have any."""

    def state(self, updates: int) -> dict[str, Array]:
        """Copies of parameters and optimizer moments, the random state and the number of updates, by name."""
        parts = [(part, target.layout.views(read_vector(target.vector))) for part, target in self.targets.items()]
        parts += [(part, vector.state()) for part, vector in self.vectors.items()]
        state = {f"{part}.{name}": value for part, values in parts for name, value in values.items()}
        if self.random is not None:
            state[_RANDOM] = np.frombuffer(json.dumps(self.random.bit_generator.state).encode(), np.uint8)
        return state | {_UPDATES: np.array(updates)}

    def load(self, state: Mapping[str, Array]) -> int:
        """Restores what state() returned; returns the number of updates. CheckpointError if names or shapes differ."""
        parts: dict[str, dict[str, Array]] = {name: {} for name in (*self.targets, *self.vectors)}
        try:
            for name, value in state.items():
                if name not in (_RANDOM, _UPDATES):
                    part, rest = name.split(".", 1)
                    parts[part][rest] = value
            targets = {part: target.layout.join(parts[part]) for part, target in self.targets.items()}
            updates = int(state[_UPDATES])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint's network does not fit these settings: {error}") from error
        for part, vector in self.vectors.items():
            vector.load(parts[part])
        for part, values in targets.items():
            write_vector(self.targets[part].vector, values)
        if self.random is not None:
            try:
                self.random.bit_generator.state = json.loads(state[_RANDOM].tobytes())
            except (KeyError, TypeError, ValueError) as error:
                raise CheckpointError(f"the checkpoint's random state does not fit: {error}") from error
        return updates


class Follower(NamedTuple):
    """Moves target networks towards the online ones, every `period` updates by the fraction `rate`; 1 copies.

    Where updates are divided among several sets of parameters (AD-PSGD), `period` counts the updates of each.
    """

    targets: tuple[Target, ...]
    period: int
    rate: float

    def follow(self, before: int, version: int, parameter_sets: int) -> None:
        """Moves the targets as often as is due between two versions of the online networks."""
        period = self.period * parameter_sets
        due = version // period - before // period
        if due > 0:
            rate = self.rate if due == 1 else 1 - (1 - self.rate) ** due
            for target in self.targets:
                vector = target.vector
                vector *= 1 - rate
                vector += rate * target.online
