"""Parameters on a learner's GPU."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import OptimizerOptions
from headrace.errors import CheckpointError
from headrace.gradients.base import Applied

__all__ = ["DeviceVector"]


class DeviceVector:
    """Memory of a torch device and torch's optimizer of the same name; implements `ParameterVector`. Never stale."""

    def __init__(self, initial: NDArray[np.float32], options: OptimizerOptions, device: torch.device) -> None:
        self.parameters = torch.nn.Parameter(torch.from_numpy(initial.copy()).to(device))
        self.gradient = torch.zeros_like(self.parameters)
        self.parameters.grad = self.gradient
        self._optimizer = _optimizer(self.parameters, options)
        self.version = 0

    def pull(self) -> int:
        """Nothing to bring: the version."""
        return self.version

    def apply(self) -> Applied:
        """One step of the optimizer."""
        self._optimizer.step()
        self.version += 1
        return Applied(self.version, 0)

    def state(self) -> dict[str, Tensor]:
        """Parameters, the optimizer's moments and steps."""
        moments = self._optimizer.state_dict()["state"].get(0, {})
        present = {f"moment.{name}": value.clone() for name, value in moments.items() if value is not None}
        return {"parameters": self.parameters.detach().clone(), "steps": torch.tensor(self.version), **present}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave; raises CheckpointError where shapes differ."""
        try:
            self.parameters.data.copy_(state["parameters"])
            moments = {
                name.removeprefix("moment."): value for name, value in state.items() if name.startswith("moment.")
            }
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": {0: moments} if moments else {}, "param_groups": groups})
            self.version = int(state["steps"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint's parameters do not fit these settings: {error}") from error


def _optimizer(parameters: Tensor, options: OptimizerOptions) -> torch.optim.Optimizer:
    rate, decay, epsilon = options.learning_rate, options.decay, options.epsilon
    if options.kind == "adam":
        return torch.optim.Adam([parameters], rate, (options.beta1, options.beta2), epsilon, fused=True)
    if options.kind == "adagrad":
        return torch.optim.Adagrad([parameters], rate, eps=epsilon)
    if options.kind in ("sgd", "momentum"):
        return torch.optim.SGD([parameters], rate, decay if options.kind == "momentum" else 0.0)
    return torch.optim.RMSprop([parameters], rate, decay, epsilon, centered=options.kind == "centred-rmsprop")
