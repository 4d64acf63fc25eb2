"""The contract of every object that holds parameters and applies gradients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.types import Array, FlatVector

__all__ = ["Applied", "Mode", "OpenVector", "ParameterVector", "SharedOptions"]

Mode = Literal["lock", "hogwild", "ad-psgd"]
"""Under a lock, without one, or each worker with its own vector, which it averages with others'."""


@dataclass(frozen=True)
class SharedOptions:
    """How the workers of one machine share a vector in memory."""

    mode: Mode
    own_optimizer_state: bool = False
    """Whether each worker has its own."""
    average_period: int = 1
    """Calls of apply() between two averagings of ad-psgd."""
    l1_penalty: float = 0.0
    """Weight of the sum of the parameters' magnitudes in the loss."""


class Applied(NamedTuple):
    """The outcome of applying a gradient."""

    version: int
    """Number of updates of the parameters by all workers, including this one."""
    staleness: int | None
    """Number of updates by others between reading the parameters for this gradient and applying it; -1 if the gradient
    was refused; None if it is not applied yet, but summed with the following ones."""
    accepted: bool = True
    """False if the gradient was dropped because it was stale, or refused because it is not finite."""


class ParameterVector(Protocol):
    """A model's parameters as one flat vector, wherever gradients are applied to it. One thread per object."""

    @property
    def parameters(self) -> FlatVector:
        """[P]: the network's parameters are views of this vector."""

    @property
    def gradient(self) -> FlatVector:
        """[P]: the gradient for apply()."""

    @property
    def version(self) -> int:
        """Number of updates in `parameters`, as far as is known here."""

    @property
    def parameter_sets(self) -> int:
        """Number of sets of parameters, of which each update moves one: their mean moves this many times less."""

    def pull(self) -> int:
        """Updates `parameters` if that is due; returns their version afterwards."""

    def apply(self) -> Applied:
        """Applies `gradient`, which is unchanged; `parameters` may include it only after the next pull()."""

    def state(self) -> dict[str, Array]:
        """Copies of parameters, optimizer moments and step count, by name."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned, for all users of the vector; raises CheckpointError if it does not fit."""

    def close(self) -> None:
        """Closes its connections, if it has any; no other call may follow. From any thread."""


OpenVector = Callable[[NDArray[np.float32], OptimizerOptions], ParameterVector]
"""Creates a vector from its initial values [P] and its optimizer's options; an existing vector ignores them.

An updater opens its vectors in the same order in every process.
"""
