"""What every algorithm's learner side offers to the roles."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headrace.networks import Architecture
from headrace.types import Array, Batch

__all__ = ["Update", "Updater"]


class Update(NamedTuple):
    """What one gradient step gave back."""

    priority: NDArray[np.float32]  # [B], |TD error| or what the algorithm has for it
    loss: float


class Updater(Protocol):
    """Networks and optimizers of one algorithm. One thread uses it."""

    @property
    def architecture(self) -> Architecture:
        """The policy's network."""

    @property
    def version(self) -> int:
        """Updates that the policy has had, by all who learn it."""

    def pull(self) -> int:
        """Brings the networks up to date with what others have learned, where it is time for that; the version then."""

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """Moves the fields that update() needs to the learner's device."""

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """One gradient step on a transferred batch."""

    def weights(self) -> dict[str, Array]:
        """The policy's present parameters, float32, by name: a copy."""

    def act(self, observation: Array) -> NDArray[np.float32]:
        """The present policy's outputs [B, A] for observations [B, *input]."""

    def state(self) -> dict[str, Tensor]:
        """Everything that training changes, by name."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave; raises CheckpointError where it does not fit."""
