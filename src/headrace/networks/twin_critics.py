"""The twin critics."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace._native import DenseLayer, DenseNetwork
from headrace.networks.architecture import Architecture, require_parameters
from headrace.networks.layout import Layout, Parameter

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TWINS", "TwinCritics"]

TWINS = 2


@dataclass(frozen=True)
class TwinCritics:
    """Maps observations [B, *input] and actions [B, A] to the Q values [B, 2] of two MLPs, computed together.

    Observation and action, flattened and concatenated, go through linear layers with a ReLU between them; uint8
    observations are scaled to [0, 1]. A `Description`.
    """

    architecture: Architecture
    actions: int
    hidden: tuple[int, ...]

    def __post_init__(self) -> None:
        require_parameters("critic_hidden", self.hidden, self.layout.size)

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer of one critic."""
        return (*pairwise((self.architecture.features + self.actions, *self.hidden, 1)),)

    @property
    def layout(self) -> Layout:
        """The parameters, each for both critics: weights.0 [2, inputs, outputs], ..., biases.0 [2, 1, outputs], ..."""
        weights = (_uniform(f"weights.{index}", i, o, inputs=i) for index, (i, o) in enumerate(self.sizes))
        biases = (_uniform(f"biases.{index}", 1, o, inputs=i) for index, (i, o) in enumerate(self.sizes))
        return Layout((*weights, *biases))

    def build_native(self) -> DenseNetwork:
        """The native network: the two MLPs are two streams of layers, whose heads are side by side."""
        layers: list[DenseLayer] = []
        for twin in range(TWINS):
            weight, bias = 0, TWINS * sum(inputs * outputs for inputs, outputs in self.sizes)
            for index, (inputs, outputs) in enumerate(self.sizes):
                layers.append(
                    DenseLayer(
                        inputs,
                        outputs,
                        weight=weight + twin * inputs * outputs,
                        bias=bias + twin * outputs,
                        activation="relu" if index + 1 < len(self.sizes) else "none",
                        source=len(layers) - 1 if index else None,
                        by_input=True,
                    )
                )
                weight, bias = weight + TWINS * inputs * outputs, bias + TWINS * outputs
        inputs_of = [self.architecture.native_input, (self.actions, False)]
        return DenseNetwork(inputs_of, layers, parameters=self.layout.size)

    def build_torch(self) -> "nn.Module":
        """The torch module."""
        from headrace.networks.torch_modules import TwinCriticsModule

        return TwinCriticsModule(self)


def _uniform(name: str, rows: int, columns: int, *, inputs: int) -> Parameter:
    """Uniform on +-1 / sqrt(inputs), as torch initializes linear layers."""
    return Parameter(name, (TWINS, rows, columns), -(inputs**-0.5), inputs**-0.5)
