"""The learned weight of the entropy in the objectives of SAC and CrossQ."""

from math import log

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.sac.rules import temperature_gradient
from headrace.gradients.base import ParameterVector
from headrace.gradients.flat import read_vector
from headrace.networks.layout import Layout, Parameter

__all__ = ["Temperature", "temperature_layout"]


def temperature_layout(initial: float) -> Layout:
    """The layout of a vector of one parameter, the log temperature."""
    return Layout((Parameter("log", (1,), log(initial), log(initial)),))


class Temperature:
    """The temperature alpha, whose logarithm is the vector's parameter.

    `target_entropy` is in nats; None is minus the number of action dimensions.
    """

    def __init__(self, vector: ParameterVector, target_entropy: float | None, actions: int) -> None:
        self._vector = vector
        self._target_entropy = -float(actions) if target_entropy is None else target_entropy

    @property
    def value(self) -> float:
        """Alpha."""
        return float(np.exp(read_vector(self._vector.parameters)[0]))

    def descend(self, log_probability: NDArray[np.float32]) -> None:
        """Writes the vector's gradient for log pi(a | s) [B] of sampled actions."""
        self._vector.gradient[:] = temperature_gradient(log_probability, self._target_entropy)
