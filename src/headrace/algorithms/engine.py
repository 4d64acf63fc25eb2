"""What computes a learner's networks: the native engine or torch."""

from typing import Literal

import torch
from torch import Tensor

from headrace.algorithms.config import Engine
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture
from headrace.networks.base import Network
from headrace.networks.native_network import NativeNetwork
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.torch_network import TorchNetwork

__all__ = ["WIDEST", "choose_engine", "open_network"]

WIDEST = 1_024
"""Widest layer for which auto selects the native engine: above it the time goes into products as fast as torch's."""


def choose_engine(engine: Engine, device: torch.device, architecture: Architecture) -> Literal["native", "torch"]:
    """Resolves "auto"; raises ConfigError if the native engine is required and can't compute this network here."""
    fault = ""
    if device.type != "cpu":
        fault = f"device is {device}: the native engine computes on the CPU"
    elif architecture.convolutions:
        fault = f"network is {architecture.kind}: the native engine has no convolutions"
    if engine == "native" and fault:
        raise ConfigError(f"learner_engine is native and {fault}; learner_engine auto or torch is required")
    if engine != "auto":
        return engine
    return "torch" if fault or max(architecture.features, *architecture.hidden, 0) > WIDEST else "native"


def open_network(
    engine: Literal["native", "torch"], module: PolicyNetwork, parameters: Tensor, gradient: Tensor | None = None
) -> Network:
    """The module's network, whose parameters and gradients are views of these vectors [P]."""
    if engine == "torch":
        return TorchNetwork(module, parameters.device, gradient)
    change = None if gradient is None else gradient.numpy()
    return NativeNetwork(module.architecture, parameters.detach().numpy(), change)
