"""What computes a learner's networks: the native engine or torch."""

import contextlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from headrace.algorithms.config import Engine
from headrace.errors import ConfigError, LaunchError
from headrace.gradients.base import ParameterVector
from headrace.networks.architecture import Architecture
from headrace.networks.base import Description, Network, NormalizedNetwork
from headrace.networks.native_network import NativeNetwork, NormalizedNativeNetwork
from headrace.networks.normalized_streams import NormalizedStreams
from headrace.types import FlatVector

__all__ = [
    "GPU_WIDTH", "MOST_WEIGHTS", "choose_engine", "limit_torch_threads", "open_network", "open_normalized_network",
    "suits_gpu", "torch_threads",
]  # fmt: skip

MOST_WEIGHTS = 1_024 * 1_024
"""Of a layer for which auto selects the native engine: above it the time goes into products as fast as torch's."""

GPU_WIDTH = 512
"""Least width of a hidden layer for which device auto is a GPU (benchmarks/gpu.py), on which less is hardly faster."""


def choose_engine(
    engine: Engine, device: str, architecture: Architecture, widths: tuple[int, ...] = ()
) -> Literal["native", "torch"]:
    """Resolves "auto"; raises ConfigError if the engine can't compute this network here, or torch is not installed.

    `widths` are those of the other networks' layers.
    """
    fault = _fault(architecture)
    if device != "cpu":
        fault = f"device is {device}: the native engine computes on the CPU"
    if engine == "native" and fault:
        raise ConfigError(f"learner_engine is native and {fault}; learner_engine auto or torch is required")
    own = ((layer.inputs, layer.outputs) for layer in chain(architecture.torso, *architecture.heads))
    largest = max(inputs * outputs for inputs, outputs in chain(own, pairwise((architecture.features, *widths))))
    if engine == "native" or (engine == "auto" and not fault and largest <= MOST_WEIGHTS):
        return "native"
    if find_spec("torch") is None:
        fault = fault or f"the largest layer has {largest:,} weights"
        raise ConfigError(
            f"learner_engine is {engine} and {fault}: torch is required, and not installed: "
            "pip install 'headrace[torch]'"
        )
    return "torch"


def suits_gpu(architecture: Architecture, widths: tuple[int, ...] = ()) -> bool:
    """Whether device auto is a GPU, where there is one: for wide layers, and for what the native engine can't compute.

    `widths` are those of the other networks' layers.
    """
    return _fault(architecture) != "" or max((*architecture.hidden, *widths), default=0) >= GPU_WIDTH


def _fault(architecture: Architecture) -> str:
    """Why the native engine can't compute this network; empty if it can."""
    if architecture.own:
        return f"network is {architecture.own.build}: the native engine computes no torch modules"
    if architecture.convolutions:
        return f"network is {architecture.kind}: the native engine has no convolutions"
    if architecture.recurrent:
        return f"cell is {architecture.cell}: the native engine has no recurrent layers"
    return ""


def open_network(
    engine: Literal["native", "torch"],
    description: Description,
    parameters: FlatVector,
    gradient: FlatVector | None = None,
) -> Network:
    """The network over its parameters [P] and, for backward(), their gradient [P]."""
    if engine == "torch":
        from headrace.networks.torch_network import TorchNetwork

        return TorchNetwork(description, parameters, gradient)
    assert isinstance(parameters, np.ndarray)
    assert gradient is None or isinstance(gradient, np.ndarray)
    return NativeNetwork(description.build_native(), description.architecture, parameters, gradient)


def open_normalized_network(
    engine: Literal["native", "torch"],
    description: NormalizedStreams,
    parameters: ParameterVector,
    statistics: ParameterVector,
) -> NormalizedNetwork:
    """The network over the parameters [P] of a vector, and the running statistics [S] of another."""
    vectors = parameters.parameters, parameters.gradient, statistics.parameters, statistics.gradient
    if engine == "torch":
        from headrace.networks.torch_network import NormalizedTorchNetwork

        return NormalizedTorchNetwork(description, *vectors)
    theta, gradient, running, change = vectors
    assert isinstance(theta, np.ndarray)
    assert isinstance(gradient, np.ndarray)
    assert isinstance(running, np.ndarray)
    assert isinstance(change, np.ndarray)
    return NormalizedNativeNetwork(
        description.build_native(), description.architecture, theta, gradient, running, change
    )


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A context in which torch computes with this many threads; see limit_torch_threads()."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    limit_torch_threads(count)
    try:
        yield
    finally:
        if before:
            limit_torch_threads(before)


def limit_torch_threads(count: int) -> None:
    """Makes torch compute with this many threads if anything in this process computes with it.

    Raises LaunchError if torch keeps another number: more threads than cores are what limits most published speedups.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
        if torch.get_num_threads() != count:
            raise LaunchError(f"torch computes with {torch.get_num_threads()} threads; {count} are required")
