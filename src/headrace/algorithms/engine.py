"""What computes a learner's networks: the native engine or torch."""

from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from headrace._native import DenseNetwork
from headrace.algorithms.config import Engine
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture
from headrace.networks.base import Network
from headrace.networks.native_network import NativeNetwork
from headrace.networks.torch_network import TorchNetwork

__all__ = ["WIDEST", "Module", "choose_engine", "open_network"]

WIDEST = 1_024
"""Widest layer for which auto selects the native engine: above it the time goes into products as fast as torch's."""


def choose_engine(
    engine: Engine, device: torch.device, architecture: Architecture, widths: tuple[int, ...] = ()
) -> Literal["native", "torch"]:
    """Resolves "auto"; raises ConfigError if the native engine is required and can't compute this network here.

    `widths` are those of the other networks' layers.
    """
    fault = ""
    if device.type != "cpu":
        fault = f"device is {device}: the native engine computes on the CPU"
    elif architecture.convolutions:
        fault = f"network is {architecture.kind}: the native engine has no convolutions"
    if engine == "native" and fault:
        raise ConfigError(f"learner_engine is native and {fault}; learner_engine auto or torch is required")
    if engine != "auto":
        return engine
    return "torch" if fault or max((architecture.features, *architecture.hidden, *widths)) > WIDEST else "native"


class Module(Protocol):
    """A torch module that the native engine can compute, too."""

    architecture: Architecture
    """Describes its observations."""

    def build_native(self) -> DenseNetwork:
        """The native network with the module's layers, for its parameters in one vector."""


def open_network(
    engine: Literal["native", "torch"], module: Module, parameters: Tensor, gradient: Tensor | None = None
) -> Network:
    """The module's network, whose parameters and gradients are views of these vectors [P]."""
    if engine == "torch":
        assert isinstance(module, nn.Module)
        return TorchNetwork(module, parameters.device, gradient)
    change = None if gradient is None else gradient.numpy()
    return NativeNetwork(module.build_native(), module.architecture, parameters.detach().numpy(), change)
