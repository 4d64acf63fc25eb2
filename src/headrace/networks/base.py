"""The contract of a network that a learner computes with: outputs, and gradients by parameters and inputs."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Network"]


class Network(Protocol):
    """A network whose parameters are a vector elsewhere, which may change between two calls. One thread uses it.

    The inputs are placed observations and, for a critic, actions [B, A] float32.
    """

    def place(self, observation: Array) -> Any:
        """Observations [B, *input] as the other methods take them; may be a view of `observation`."""

    def output(self, *x: Any) -> NDArray[np.float32]:
        """Outputs y [B, *] for these inputs."""

    def forward(self, *x: Any) -> NDArray[np.float32]:
        """The same, for backward() or differentiate(), which must be the next call."""

    def backward(self, dy: NDArray[np.float32]) -> None:
        """Writes the gradient of sum(dy y) by the parameters, for dy [B, *], to the gradient's vector."""

    def differentiate(self, dy: NDArray[np.float32]) -> NDArray[np.float32]:
        """The gradient [B, A] of sum(dy y) by the last input."""
