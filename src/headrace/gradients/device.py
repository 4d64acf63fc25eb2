"""Parameters on a learner's GPU."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.gradients.base import Applied
from headrace.gradients.checkpoint import read_state
from headrace.gradients.flat import read_vector, write_vector
from headrace.types import Array

__all__ = ["DeviceVector"]

_MOMENTS = {
    "sgd": (),
    "momentum": ("momentum_buffer",),
    "rmsprop": ("square_avg",),
    "centered-rmsprop": ("square_avg", "grad_avg"),
    "adagrad": ("sum",),
    "adam": ("exp_avg", "exp_avg_sq"),
}
"""Torch's names of an optimizer's moments, in the native optimizer's order."""


class DeviceVector:
    """Memory of a torch device and torch's optimizer of the same name; implements `ParameterVector`. Never stale."""

    parameter_sets = 1

    def __init__(self, initial: NDArray[np.float32], options: OptimizerOptions, device: str) -> None:
        self._leaf = torch.nn.Parameter(torch.tensor(initial, device=device))
        self._leaf.grad = torch.zeros_like(self._leaf)
        self.parameters = self._leaf.detach()
        self.gradient = self._leaf.grad
        self._optimizer = _optimizer(self._leaf, options)
        self._moments: tuple[str, ...] = _MOMENTS[options.kind]
        self._counts_steps = options.kind not in ("sgd", "momentum")
        self.version = 0

    def pull(self) -> int:
        """Returns the version: there is nothing to update."""
        return self.version

    def apply(self) -> Applied:
        """One step of the optimizer."""
        self._optimizer.step()
        self.version += 1
        return Applied(self.version, 0)

    def state(self) -> dict[str, Array]:
        """Parameters, moments [M, P] and steps, in the format of `LocalVector`."""
        held = self._optimizer.state.get(self._leaf, {})
        moments = np.zeros((len(self._moments), len(self.parameters)), np.float32)  # as before the first step
        for row, name in zip(moments, self._moments, strict=True):
            if name in held:
                row[:] = read_vector(held[name])
        return {"parameters": read_vector(self.parameters), "moments": moments, "steps": np.array(self.version)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned; raises CheckpointError if shapes differ."""
        saved = read_state(state, len(self.parameters), len(self._moments))
        held = dict(zip(self._moments, torch.from_numpy(saved.moments), strict=True))
        if self._counts_steps:
            held["step"] = torch.tensor(float(saved.steps))
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": {0: held}})
        write_vector(self.parameters, saved.parameters)
        self.version = saved.steps

    def close(self) -> None:
        """No effect: there is no connection."""


def _optimizer(parameters: torch.nn.Parameter, options: OptimizerOptions) -> torch.optim.Optimizer:
    rate, decay, epsilon = options.learning_rate, options.decay, options.epsilon
    if options.kind == "adam":
        return torch.optim.Adam([parameters], rate, (options.beta1, options.beta2), epsilon, fused=True)
    if options.kind == "adagrad":
        return torch.optim.Adagrad([parameters], rate, eps=epsilon)
    if options.kind in ("sgd", "momentum"):
        return torch.optim.SGD([parameters], rate, decay if options.kind == "momentum" else 0.0)
    if options.kind == "rmsprop":
        return torch.optim.RMSprop([parameters], rate, decay, epsilon)
    return _CenteredRMSprop([parameters], rate, decay, epsilon)


class _CenteredRMSprop(torch.optim.RMSprop):
    """Torch's centered RMSprop, whose variance E[g²] - E[g]² is not below 0 where rounding would make it so.

    Torch takes the square root of that: NaN, after a few updates with a constant gradient.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # closures: unused
        """One update of every parameter."""
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient, state, fresh = parameter.grad, self.state[parameter], 1 - group["alpha"]
                if not state:
                    state.update({name: torch.zeros_like(parameter) for name in _MOMENTS["centered-rmsprop"]})
                square, mean = state["square_avg"], state["grad_avg"]
                square.mul_(group["alpha"]).addcmul_(gradient, gradient, value=fresh)
                mean.lerp_(gradient, fresh)
                deviation = square.addcmul(mean, mean, value=-1).clamp_(min=0).sqrt_().add_(group["eps"])
                parameter.addcdiv_(gradient, deviation, value=-group["lr"])
