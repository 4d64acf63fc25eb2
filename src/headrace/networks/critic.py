"""The distributional critic."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace._native import DenseLayer, DenseNetwork
from headrace.networks.architecture import Architecture, require_parameters
from headrace.networks.layout import Layout, Parameter, affine

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Critic"]


@dataclass(frozen=True)
class Critic:
    """Maps observations [B, *input] and actions [B, A] to logits [B, Z] of a distribution over returns.

    Observation and action, flattened and concatenated, go through a linear layer, layer normalization and tanh, then
    through a linear layer and ELU for each further width, like Acme's LayerNormMLP (Hoffman et al. 2020; Krishnan et
    al. 2022); uint8 observations are scaled to [0, 1]. A `Description`.
    """

    architecture: Architecture
    actions: int
    hidden: tuple[int, ...]
    atoms: int

    def __post_init__(self) -> None:
        require_parameters("critic_hidden", self.hidden, self.layout.size)

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each linear layer."""
        return (*pairwise((self.architecture.features + self.actions, *self.hidden, self.atoms)),)

    @property
    def layout(self) -> Layout:
        """The parameters: first.*, norm.*, hidden.0.*, ..., head.*."""
        names = ("first", *(f"hidden.{index}" for index in range(len(self.hidden) - 1)), "head")
        first, *others = (
            affine(name, (outputs, inputs)) for name, (inputs, outputs) in zip(names, self.sizes, strict=True)
        )
        width = self.hidden[:1]
        norm = (Parameter("norm.weight", width, 1.0, 1.0), Parameter("norm.bias", width, 0.0, 0.0))
        return Layout((*first, *norm, *(parameter for pair in others for parameter in pair)))

    def build_native(self) -> DenseNetwork:
        """The native network."""
        layers: list[DenseLayer] = []
        count, last = 0, len(self.sizes) - 1
        for index, (inputs, outputs) in enumerate(self.sizes):
            bias = count + inputs * outputs
            count = bias + outputs
            layers.append(
                DenseLayer(
                    inputs,
                    outputs,
                    weight=bias - inputs * outputs,
                    bias=bias,
                    activation="none" if index == last else "elu" if index else "tanh",
                    normalization=None if index else count,
                    source=index - 1 if index else None,
                )
            )
            count += 0 if index else 2 * outputs
        inputs_of = [self.architecture.native_input, (self.actions, False)]
        return DenseNetwork(inputs_of, layers, parameters=count)

    def build_torch(self) -> "nn.Module":
        """The torch module."""
        from headrace.networks.torch_modules import CriticModule

        return CriticModule(self)
