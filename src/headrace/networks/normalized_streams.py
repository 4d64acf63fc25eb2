"""Networks of dense layers whose inputs are batch-normalized."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import DenseLayer, DenseNetwork
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture, Dense, require_parameters
from headrace.networks.layout import Layout, Parameter, affine
from headrace.types import Array

if TYPE_CHECKING:
    from torch import nn

__all__ = ["EPSILON", "Limits", "NormalizedStreams"]

EPSILON = 1e-3
"""Added to variances; the native engine's is the same."""


class Limits(NamedTuple):
    """Limits of batch renormalization's r and d (Ioffe 2017, arXiv:1702.03275); the default is batch normalization."""

    scale: float = 1.0
    """r is in [1 / scale, scale]."""
    shift: float = 0.0
    """d is in [-shift, shift]."""


@dataclass(frozen=True)
class NormalizedStreams:
    """Streams of dense layers, each of which normalizes its inputs by batch; a `Description` with statistics.

    All streams read observations [B, *input], of which `architecture` describes the shape, and, if `actions` is above
    0, actions [B, A], side by side; uint8 observations are scaled to [0, 1]. The outputs are those of all streams, side
    by side. A layer maps its input x to activation(W (gain z + shift) + b). During training z is x normalized by the
    batch and renormalized within `Limits`; otherwise it is (x - mean) / sqrt(variance + EPSILON).
    """

    architecture: Architecture
    actions: int
    streams: tuple[tuple[Dense, ...], ...]

    @staticmethod
    def policy(architecture: Architecture) -> "NormalizedStreams":
        """The network that learns this policy; ConfigError unless the policy is an MLP."""
        _require_mlp(architecture)
        [head] = architecture.heads
        return NormalizedStreams(architecture, 0, ((*architecture.torso, *head),))

    @staticmethod
    def critics(architecture: Architecture, actions: int, hidden: tuple[int, ...], count: int) -> "NormalizedStreams":
        """MLPs with ReLU for so many Q values of observations and actions; raises ConfigError as policy().

        Also raises it if the critics are too large for this machine.
        """
        _require_mlp(architecture)
        sizes = (*pairwise((architecture.features + actions, *hidden, 1)),)
        streams = tuple(
            tuple(
                Dense(f"critic_{critic}_{layer}", inputs, outputs, "relu" if layer < len(hidden) else "none")
                for layer, (inputs, outputs) in enumerate(sizes)
            )
            for critic in range(count)
        )
        critics = NormalizedStreams(architecture, actions, streams)
        require_parameters("critic_hidden", hidden, critics.layout.size)
        return critics

    @property
    def layout(self) -> Layout:
        """The parameters of each layer: weight [outputs, inputs], bias [outputs], gain and shift [inputs]."""
        parameters: list[Parameter] = []
        for layer in self._layers:
            parameters += affine(layer.name, (layer.outputs, layer.inputs))
            parameters.append(Parameter(f"{layer.name}.gain", (layer.inputs,), 1.0, 1.0))
            parameters.append(Parameter(f"{layer.name}.shift", (layer.inputs,), 0.0, 0.0))
        return Layout((*parameters,))

    @property
    def statistics(self) -> Layout:
        """Running mean and variance [inputs] of each layer."""
        statistics: list[Parameter] = []
        for layer in self._layers:
            statistics.append(Parameter(f"{layer.name}.mean", (layer.inputs,), 0.0, 0.0))
            statistics.append(Parameter(f"{layer.name}.variance", (layer.inputs,), 1.0, 1.0))
        return Layout((*statistics,))

    def build_native(self, instructions: str = "") -> DenseNetwork:
        """The native network; see `DenseNetwork`."""
        layers: list[DenseLayer] = []
        weight = statistics = 0
        for stream in self.streams:
            source: int | None = None
            for dense in stream:
                bias = weight + dense.inputs * dense.outputs
                batch = (bias + dense.outputs, statistics)
                layers.append(
                    DenseLayer(
                        dense.inputs,
                        dense.outputs,
                        weight=weight,
                        bias=bias,
                        activation=dense.activation,
                        source=source,
                        batch=batch,
                    )
                )
                weight, statistics = bias + dense.outputs + 2 * dense.inputs, statistics + 2 * dense.inputs
                source = len(layers) - 1
        inputs = [self.architecture.native_input, *([(self.actions, False)] if self.actions else [])]
        return DenseNetwork(inputs, layers, parameters=weight, statistics=statistics, instructions=instructions)

    def build_torch(self) -> "nn.Module":
        """The torch module, which has the statistics as buffers."""
        from headrace.networks.normalized_modules import NormalizedModule

        return NormalizedModule(self)

    def fold(self, parameters: NDArray[np.float32], statistics: NDArray[np.float32]) -> Mapping[str, Array]:
        """Weights and biases of dense layers alone that compute the same as parameters [P] and statistics [S].

        With s = gain / sqrt(variance + EPSILON): W' = W diag(s) and b' = b + W (shift - s mean).
        """
        values = {**self.layout.views(parameters), **self.statistics.views(statistics)}
        folded: dict[str, Array] = {}
        for layer in self._layers:
            weight, bias, gain, shift, mean, variance = (
                values[f"{layer.name}.{name}"].astype(np.float64)
                for name in ("weight", "bias", "gain", "shift", "mean", "variance")
            )
            scale = gain / np.sqrt(variance.clip(0) + EPSILON)
            folded[f"{layer.name}.weight"] = (weight * scale).astype(np.float32)
            folded[f"{layer.name}.bias"] = (bias + weight @ (shift - scale * mean)).astype(np.float32)
        return folded

    @property
    def _layers(self) -> tuple[Dense, ...]:
        return tuple(layer for stream in self.streams for layer in stream)


def _require_mlp(architecture: Architecture) -> None:
    network = architecture.own.build if architecture.own else architecture.kind
    if network != "mlp":
        raise ConfigError(f"network is {network}; it must be mlp: only dense layers are normalized by batch")
