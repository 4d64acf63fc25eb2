"""The contract of everything that holds parameters and takes gradients."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Applied", "OpenVector", "ParameterVector"]


class Applied(NamedTuple):
    """What became of a gradient."""

    version: int
    """Updates that the parameters have had, by all workers, this one included."""
    staleness: int | None
    """Of them, those that others made since the parameters were read that the gradient was computed at; -1 of one that
    was refused; None of one that is not applied yet, but summed with those that follow."""
    accepted: bool = True
    """False: it was dropped for its staleness, or refused, since it is not finite."""


class ParameterVector(Protocol):
    """A model's parameters as one flat vector, wherever gradients are applied to it. One thread for each object."""

    @property
    def parameters(self) -> Tensor:
        """[P] float32: what the network computes with, for its tensors are views of this."""

    @property
    def gradient(self) -> Tensor:
        """[P] float32: what apply() applies; the `.grad` of the network's tensors are views of this."""

    @property
    def version(self) -> int:
        """Updates that `parameters` have had, as far as is known here."""

    def pull(self) -> int:
        """Brings `parameters` up to date, where it is time for that; the version that they have then."""

    def apply(self) -> Applied:
        """Applies `gradient`, which stays as it is; `parameters` may show it only after the next pull()."""

    def state(self) -> dict[str, Tensor]:
        """Parameters, the optimizer's moments and the count of its steps, by name: copies."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave, for all who share the vector; raises CheckpointError where it does not fit."""

    def close(self) -> None:
        """Ends its connections, if it has any: no other call follows. From any thread."""


OpenVector = Callable[[NDArray[np.float32]], ParameterVector]
"""Makes the vector of a model from its initial values [P]; one that exists already leaves these out."""
