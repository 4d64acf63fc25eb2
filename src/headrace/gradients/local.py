"""Parameters of this process only."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import Optimizer, OptimizerOptions
from headrace.gradients.base import Applied
from headrace.gradients.checkpoint import read_state

__all__ = ["LocalVector"]


class LocalVector:
    """Memory of this process and the native optimizer; implements `ParameterVector`. Never stale."""

    def __init__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> None:
        self._values = initial.copy()
        self._change = np.zeros_like(self._values)
        self._optimizer = Optimizer(options, len(self._values))
        self.parameters = torch.from_numpy(self._values)
        self.gradient = torch.from_numpy(self._change)

    @property
    def version(self) -> int:
        """Number of optimizer steps."""
        return self._optimizer.steps

    def pull(self) -> int:
        """Returns the version: there is nothing to update."""
        return self._optimizer.steps

    def apply(self) -> Applied:
        """One step of the optimizer."""
        self._optimizer.apply(self._values, self._change)
        return Applied(self._optimizer.steps, 0)

    def state(self) -> dict[str, Tensor]:
        """Parameters, moments [M, P] and steps."""
        moments = torch.from_numpy(self._optimizer.moments.copy())
        steps = torch.tensor(self._optimizer.steps)
        return {"parameters": self.parameters.clone(), "moments": moments, "steps": steps}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if shapes differ."""
        saved = read_state(state, len(self._values), len(self._optimizer.moments))
        self._values[:] = saved.parameters.numpy()
        self._optimizer.moments[:] = saved.moments.numpy()
        self._optimizer.steps = saved.steps

    def close(self) -> None:
        """No effect: there is no connection."""
