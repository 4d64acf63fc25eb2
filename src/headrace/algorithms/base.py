"""The contract of every algorithm's learner side."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.networks import Architecture
from headrace.types import Array, Batch

__all__ = ["RolloutPolicy", "Update", "Updater"]


class Update(NamedTuple):
    """The result of one gradient step."""

    priority: NDArray[np.float32]  # [B], |TD error| or the algorithm's equivalent
    loss: float


class Updater(Protocol):
    """Networks and optimizers of one algorithm. One thread uses it."""

    @property
    def architecture(self) -> Architecture:
        """Architecture of the policy's network."""

    @property
    def version(self) -> int:
        """Number of updates, by all learners: the version of the first vector that the updater opens."""

    def pull(self) -> int:
        """Updates the networks with what others have learned, if that is due; returns the version afterwards."""

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        """The fields that update() needs, where and as it needs them; may be views of the batch."""

    def update(self, fields: tuple[Any, ...]) -> Update:
        """One gradient step on a transferred batch."""

    def weights(self) -> dict[str, Array]:
        """A copy of the policy's current float32 parameters, by name."""

    def act(self, observation: Array) -> NDArray[np.float32]:
        """The current policy's outputs [B, *] for observations [B, *input]."""

    def state(self) -> dict[str, Array]:
        """All state that training changes, by name."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned; raises CheckpointError if it does not fit."""


class RolloutPolicy(Protocol):
    """Acts and evaluates states for an on-policy algorithm. One thread uses it."""

    def sample(self, observation: Array, random: np.random.Generator) -> Array:
        """Actions drawn from the policy: [B], or continuous [B, A] before they are clipped to [-1, 1]."""

    def values(self, observation: Array) -> NDArray[np.float32]:
        """Values [B] of observations [B, *input]."""

    def returns(
        self, reward: NDArray[np.float32], discount: NDArray[np.float32], bootstrap: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns [T, E] of a rollout, all arguments [T, E].

        `discount` is 0 where an episode terminated. `bootstrap` is the value of the next observation at the last step
        and where an episode was truncated, otherwise NaN.
        """
