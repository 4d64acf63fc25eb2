"""Stores a torch module's parameters in one flat vector, and its gradients in another."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headrace._native import OptimizerOptions
from headrace.algorithms.config import OptimizerName
from headrace.errors import CheckpointError
from headrace.gradients.base import OpenVector, ParameterVector
from headrace.gradients.device import DeviceVector
from headrace.gradients.local import LocalVector

__all__ = ["clip_norm", "flatten", "local_vectors", "open_module", "optimizer_options"]

_SMALLEST_NORM = 1e-6


class _OptimizerSettings(Protocol):
    """The settings of an algorithm with one optimizer."""

    @property
    def optimizer(self) -> OptimizerName: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def optimizer_decay(self) -> float: ...
    @property
    def optimizer_epsilon(self) -> float: ...


def optimizer_options(config: _OptimizerSettings) -> OptimizerOptions:
    """Options of the optimizer in the settings."""
    return OptimizerOptions(
        config.optimizer,
        learning_rate=config.learning_rate,
        decay=config.optimizer_decay,
        epsilon=config.optimizer_epsilon,
    )


def flat_values(module: nn.Module) -> NDArray[np.float32]:
    """A copy of the module's parameters [P], concatenated."""
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().cpu().numpy().copy()


def lay_out(module: nn.Module, vector: ParameterVector) -> None:
    """Makes the module's parameters and gradients views of the vector, and so adopts its values.

    Raises CheckpointError if the numbers of parameters differ.
    """
    begin = 0
    total = sum(parameter.numel() for parameter in module.parameters())
    if total != len(vector.parameters):
        raise CheckpointError(
            f"the model that workers share has {len(vector.parameters)} parameters, and these settings make {total}: "
            "the same settings for all are required"
        )
    for parameter in module.parameters():
        end = begin + parameter.numel()
        parameter.data = vector.parameters.detach()[begin:end].view(parameter.shape)
        parameter.grad = vector.gradient[begin:end].view(parameter.shape)
        begin = end


def flatten(module: nn.Module) -> Tensor:
    """Makes the module's parameters views of one vector [P] without gradients, which is returned."""
    vector = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.nn.utils.vector_to_parameters(vector, module.requires_grad_(False).parameters())
    return vector


def open_module(open_vector: OpenVector, module: nn.Module, options: OptimizerOptions) -> ParameterVector:
    """Opens a vector with the module's initial values and lays the module out in it; raises as lay_out()."""
    vector = open_vector(flat_values(module), options)
    lay_out(module, vector)
    return vector


def local_vectors(device: torch.device) -> OpenVector:
    """Opens vectors that belong to this process: with the native optimizer on the CPU, with torch's on a GPU."""
    if device.type == "cpu":
        return LocalVector
    return lambda initial, options: DeviceVector(initial, options, device)


def clip_norm(gradient: Tensor, largest: float) -> None:
    """Scales a gradient [P] down to at most this norm (Pascanu et al. 2013); 0 is off."""
    if largest > 0:
        gradient.mul_((largest / (gradient.norm() + _SMALLEST_NORM)).clamp_(max=1.0))
