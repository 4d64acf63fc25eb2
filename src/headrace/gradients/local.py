"""Parameters of this process only."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace._native import Optimizer, OptimizerOptions
from headrace.gradients.base import Applied
from headrace.gradients.checkpoint import read_state
from headrace.types import Array

__all__ = ["LocalVector"]


class LocalVector:
    """Memory of this process and the native optimizer; implements `ParameterVector`. Never stale."""

    parameter_sets = 1

    def __init__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> None:
        self.parameters = initial.copy()
        self.gradient = np.zeros_like(initial)
        self._optimizer = Optimizer(options, len(initial))

    @property
    def version(self) -> int:
        """Number of optimizer steps."""
        return self._optimizer.steps

    def pull(self) -> int:
        """Returns the version: there is nothing to update."""
        return self._optimizer.steps

    def apply(self) -> Applied:
        """One step of the optimizer."""
        self._optimizer.apply(self.parameters, self.gradient)
        return Applied(self._optimizer.steps, 0)

    def state(self) -> dict[str, Array]:
        """Parameters, moments [M, P] and steps."""
        moments, steps = self._optimizer.moments.copy(), np.array(self._optimizer.steps)
        return {"parameters": self.parameters.copy(), "moments": moments, "steps": steps}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned; raises CheckpointError if shapes differ."""
        saved = read_state(state, len(self.parameters), len(self._optimizer.moments))
        self.parameters[:] = saved.parameters
        self._optimizer.moments[:] = saved.moments
        self._optimizer.steps = saved.steps

    def close(self) -> None:
        """No effect: there is no connection."""
