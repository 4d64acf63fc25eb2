"""Ong's network as a model in a server."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, ShardedModel
from headrace.networks.architecture import Architecture
from headrace.studies.downpour.cases import ONG, Transport
from headrace.types import EnvironmentSpec

__all__ = ["MODEL", "SETTINGS", "open_model", "optimizer_options", "parameter_count", "spec_of"]

MODEL = "downpour"
"""Its name on the server."""
SETTINGS = dataclasses.replace(ONG, target_update_period=1_000_000)
"""Of the timed gradients, which leave the target alone."""
_ACTIONS, _STACK = 4, 4


def spec_of(pixels: int) -> EnvironmentSpec:
    """Snake in frames of so many pixels to a side."""
    return EnvironmentSpec((pixels, pixels), "uint8", _ACTIONS, _STACK)


def parameter_count(pixels: int) -> int:
    """P of the network for these frames."""
    from headrace.networks.policy_network import PolicyNetwork

    network = PolicyNetwork(Architecture.of(spec_of(pixels), ONG.network, ONG.hidden))
    return sum(parameter.numel() for parameter in network.parameters())


def open_model(address: str, transport: Transport, initial: NDArray[np.float32], shards: int = 1) -> ShardedModel:
    """The model on a server; made of these values if it is not there yet."""
    model = ShardedModel([address], MODEL, len(initial), shards=shards, share=transport == "shared")
    model.open(optimizer_options(), initial, fresh=False)
    return model


def optimizer_options() -> OptimizerOptions:
    """RMSprop, as published."""
    return OptimizerOptions(
        ONG.optimizer, learning_rate=ONG.learning_rate, decay=ONG.optimizer_decay, epsilon=ONG.optimizer_epsilon
    )
