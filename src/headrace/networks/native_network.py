"""The policy's network on the native engine; NumPy only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import DenseLayer, DenseNetwork
from headrace.networks.architecture import Architecture, Dense
from headrace.types import Array

__all__ = ["NativeNetwork", "build_dense"]


def build_dense(architecture: Architecture, instructions: str = "") -> DenseNetwork:
    """The native network of an MLP, for parameters in the order of torch's module; see `DenseNetwork`."""
    layers: list[DenseLayer] = []
    count = 0

    def add(streams: tuple[Dense, ...], source: int | None) -> int | None:
        nonlocal count
        for dense in streams:
            bias = count + dense.inputs * dense.outputs
            layers.append(
                DenseLayer(
                    dense.inputs, dense.outputs, weight=count, bias=bias, activation=dense.activation, source=source
                )
            )
            count, source = bias + dense.outputs, len(layers) - 1
        return source

    torso = add(architecture.torso, None)
    for head in architecture.heads:
        add(head, torso)
    inputs = [(architecture.features, architecture.input_dtype == "uint8")]
    return DenseNetwork(inputs, layers, parameters=count, dueling=architecture.dueling, instructions=instructions)


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
        self._features = architecture.features
        self._dtype = np.dtype(np.uint8 if architecture.input_dtype == "uint8" else np.float32)
        self._parameters = parameters
        self._gradient = gradient
        self._shape: tuple[int, ...] = ()  # of the last input
        self._inputs = 0

    def place(self, observation: Array) -> Array:
        """Observations [B, F], float32 unless they are bytes."""
        return np.ascontiguousarray(observation.reshape(len(observation), self._features), self._dtype)

    def output(self, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *]."""
        y = np.empty((len(x[0]), self._dense.outputs), np.float32)
        self._dense.forward(self._parameters, x, y)
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
