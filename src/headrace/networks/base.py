"""The contracts of a network: its description, and what a learner computes with."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import DenseNetwork
from headrace.networks.architecture import Architecture
from headrace.networks.layout import Layout
from headrace.networks.normalized_streams import Limits
from headrace.types import Array

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Description", "Network", "NormalizedNetwork"]


class Description(Protocol):
    """A network's layers and parameters, from which either engine builds it."""

    @property
    def architecture(self) -> Architecture:
        """Describes the observations, the network's first input."""

    @property
    def layout(self) -> Layout:
        """The parameters."""

    def build_native(self) -> DenseNetwork:
        """The native network, for parameters in a vector of this layout. There must be no convolutions."""

    def build_torch(self) -> "nn.Module":
        """A torch module whose parameters have the layout's names and shapes; their values do not matter."""


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


class NormalizedNetwork(Network, Protocol):
    """A batch-normalized network, whose running statistics are a vector elsewhere, too.

    output() and forward() normalize by the running statistics.
    """

    def forward_batch(self, limits: Limits, *x: Any) -> NDArray[np.float32]:
        """The same as forward(), normalized by the batch's statistics and renormalized within these limits.

        Writes the running statistics less the batch's to the gradient of the statistics' vector: stochastic gradient
        descent with the rate 1 - momentum makes a moving average of them.
        """
