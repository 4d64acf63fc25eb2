"""Names, shapes and initial values of a network's parameters, which are one flat vector."""

from collections.abc import Mapping
from itertools import pairwise
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Layout", "Parameter", "affine"]


class Parameter(NamedTuple):
    """A parameter's name and shape, and the interval in which its initial values are uniform."""

    name: str
    shape: tuple[int, ...]
    low: float
    high: float


class Layout(NamedTuple):
    """Parameters that follow one another in a vector [P], in C order."""

    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int:
        """P, the number of values of all parameters."""
        return sum(prod(parameter.shape) for parameter in self.parameters)

    def views(self, vector: Any) -> dict[str, Any]:
        """Views of a vector [P], a NumPy array or a torch tensor, by name."""
        ends = np.cumsum([0, *(prod(parameter.shape) for parameter in self.parameters)]).tolist()
        return {
            parameter.name: vector[begin:end].reshape(parameter.shape)
            for parameter, (begin, end) in zip(self.parameters, pairwise(ends), strict=True)
        }

    def join(self, values: Mapping[str, Array]) -> NDArray[np.float32]:
        """A vector [P] of these values, the inverse of views(); raises ValueError if names or shapes differ."""
        shapes = {parameter.name: parameter.shape for parameter in self.parameters}
        found = {name: value.shape for name, value in values.items()}
        if found != shapes:
            raise ValueError(f"its parameters are {found}, and {shapes} are required")
        return np.concatenate([values[name].ravel() for name in shapes], dtype=np.float32)

    def initial(self, random: np.random.Generator) -> NDArray[np.float32]:
        """Initial values [P]; draws P random numbers."""
        vector = random.random(self.size, np.float32)
        for parameter, view in zip(self.parameters, self.views(vector).values(), strict=True):
            view[:] = parameter.low + (parameter.high - parameter.low) * view
        return vector


def affine(name: str, shape: tuple[int, ...]) -> tuple[Parameter, Parameter]:
    """The weight [outputs, ...] and the bias [outputs] of a linear layer or a convolution.

    Both are uniform on +-1 / sqrt(inputs of an output), as in torch.
    """
    bound = 1 / sqrt(max(1, prod(shape[1:])))
    return Parameter(f"{name}.weight", shape, -bound, bound), Parameter(f"{name}.bias", shape[:1], -bound, bound)
