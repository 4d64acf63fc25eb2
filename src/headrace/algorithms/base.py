"""What every algorithm's learner side offers to the roles."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headrace.types import Array, Batch

__all__ = ["Update", "Updater"]


class Update(NamedTuple):
    """What one gradient step gave back."""

    priority: NDArray[np.float32]  # [B], |TD error|
    loss: float


class Updater(Protocol):
    """Networks and optimizer of one algorithm. One thread uses it."""

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """Moves the fields that update() needs to the learner's device."""

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """One gradient step on a transferred batch."""

    def policy(self) -> bytes:
        """The current policy as an ONNX graph."""

    def act(self, observation: Array) -> NDArray[np.float32]:
        """Q values [B, A] of observations [B, *input], by the current network."""

    def state(self) -> dict[str, Tensor]:
        """Everything that training changes, by name."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave; raises CheckpointError where it does not fit."""
