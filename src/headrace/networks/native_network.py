"""Networks on the native engine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import DenseLayer, DenseNetwork
from headrace.networks.architecture import Architecture, Dense
from headrace.networks.normalized_streams import Limits
from headrace.networks.records import ILLEGAL, expand
from headrace.types import Array

__all__ = ["DenseLayers", "NativeNetwork", "NormalizedNativeNetwork", "build_dense"]


class DenseLayers:
    """Layers of a native network whose parameters follow one another: of each the weight, then the bias."""

    def __init__(self, first: int = 0) -> None:
        self.layers: list[DenseLayer] = []
        self.parameters = first
        """Number of parameters so far; the first of them, `first`, are of no layer."""

    def add(self, stream: tuple[Dense, ...], source: int | None = None) -> int | None:
        """Adds layers, each of which reads the one before, the first `source` (None: the input); returns the last."""
        for dense in stream:
            weight = self.parameters
            bias = weight + dense.inputs * dense.outputs
            self.layers.append(
                DenseLayer(
                    dense.inputs, dense.outputs, weight=weight, bias=bias, activation=dense.activation, source=source
                )
            )
            self.parameters, source = bias + dense.outputs, len(self.layers) - 1
        return source


def build_dense(architecture: Architecture, instructions: str = "") -> DenseNetwork:
    """The native network of an MLP, for parameters in the architecture's layout; see `DenseNetwork`."""
    layers = DenseLayers()
    torso = layers.add(architecture.torso)
    for head in architecture.heads:
        layers.add(head, torso)
    inputs = [architecture.native_input]
    return DenseNetwork(
        inputs,
        layers.layers,
        parameters=layers.parameters,
        dueling=architecture.dueling,
        instructions=instructions,
    )


class NativeNetwork:
    """A dense network over parameters [P] and, for backward(), their gradient [P]; implements `Network`.

    `architecture` describes the observations, which are its first input.
    """

    def __init__(
        self,
        dense: DenseNetwork,
        architecture: Architecture,
        parameters: NDArray[np.float32],
        gradient: NDArray[np.float32] | None = None,
    ) -> None:
        self._dense = dense
        self._features, is_bytes = architecture.native_input
        self._dtype = np.dtype(np.uint8 if is_bytes else np.float32)
        self._parts = architecture.parts
        self._masked_actions = architecture.head.outputs if architecture.head.masked else 0
        self._parameters = parameters
        self._gradient = gradient
        self._shape: tuple[int, ...] = ()  # of the last input
        self._inputs = 0

    def place(self, observation: Array) -> Array:
        """Observations [B, F], float32 unless they are bytes; the last features are the action mask if there is one."""
        if self._parts:
            return expand(observation, self._parts)
        return np.ascontiguousarray(observation.reshape(len(observation), self._features), self._dtype)

    def output(self, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *]."""
        y = np.empty((len(x[0]), self._dense.outputs), np.float32)
        self._dense.forward(self._parameters, x, y)
        if self._masked_actions:
            y[:, : self._masked_actions][x[0][:, -self._masked_actions :] == 0] = ILLEGAL
        return y

    def forward(self, *x: Any) -> NDArray[np.float32]:
        """The same: the native network keeps what the gradients need."""
        self._shape, self._inputs = x[-1].shape, len(x)
        return self.output(*x)

    def backward(self, dy: NDArray[np.float32]) -> None:
        """Writes the gradient."""
        self._dense.backward(self._parameters, dy, self._gradient)

    def differentiate(self, dy: NDArray[np.float32]) -> NDArray[np.float32]:
        """The gradient by the last input."""
        dx = np.empty(self._shape, np.float32)
        self._dense.backward(self._parameters, dy, None, (*[None] * (self._inputs - 1), dx))
        return dx


class NormalizedNativeNetwork(NativeNetwork):
    """The same with batch normalization; implements `NormalizedNetwork`.

    `statistics` [S] are the running ones; `change` [S] is the gradient of their vector.
    """

    def __init__(
        self,
        dense: DenseNetwork,
        architecture: Architecture,
        parameters: NDArray[np.float32],
        gradient: NDArray[np.float32],
        statistics: NDArray[np.float32],
        change: NDArray[np.float32],
    ) -> None:
        super().__init__(dense, architecture, parameters, gradient)
        self._statistics = statistics
        self._change = change

    def output(self, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *], by the running statistics."""
        y = np.empty((len(x[0]), self._dense.outputs), np.float32)
        self._dense.forward(self._parameters, x, y, self._statistics)
        return y

    def forward_batch(self, limits: Limits, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *], by the batch's statistics."""
        self._shape, self._inputs = x[-1].shape, len(x)
        y = np.empty((len(x[0]), self._dense.outputs), np.float32)
        self._dense.forward(self._parameters, x, y, self._statistics, self._change, limits)
        np.subtract(self._statistics, self._change, out=self._change)
        return y
