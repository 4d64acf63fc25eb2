"""The network of Ong et al. as a model in a server's process."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import Client, OptimizerOptions, ShardedModel
from headrace.networks.architecture import Architecture
from headrace.studies.downpour.cases import ONG, Transport
from headrace.studies.processes import serve
from headrace.types import EnvironmentSpec

__all__ = [
    "SETTINGS",
    "ShardCounts",
    "Standing",
    "open_model",
    "optimizer_options",
    "parameter_count",
    "spec_of",
    "start_server",
]

_MODEL = "downpour"
"""The model's name on the server."""
SETTINGS = dataclasses.replace(ONG, target_update_period=1_000_000)
"""Settings of the timed gradients, whose target network never changes."""
_ACTIONS, _STACK = 4, 4


def spec_of(pixels: int) -> EnvironmentSpec:
    """Snake with frames of this side length in pixels."""
    return EnvironmentSpec((pixels, pixels), "uint8", _ACTIONS, _STACK)


def parameter_count(pixels: int) -> int:
    """Number of parameters of the network for these frames."""
    return Architecture.of(spec_of(pixels), ONG.network, ONG.hidden).layout.size


def open_model(address: str, transport: Transport, initial: NDArray[np.float32], shards: int = 1) -> ShardedModel:
    """Opens the model on a server; creates it with these values if it does not exist."""
    model = ShardedModel([address], _MODEL, len(initial), shards=shards, share=transport == "shared")
    model.open(optimizer_options(), initial, fresh=False)
    return model


def optimizer_options() -> OptimizerOptions:
    """RMSprop, as published."""
    return OptimizerOptions(
        ONG.optimizer, learning_rate=ONG.learning_rate, decay=ONG.optimizer_decay, epsilon=ONG.optimizer_epsilon
    )


class ShardCounts(NamedTuple):
    """Totals over all shards of the model, from the server; both only increase."""

    accepted: int
    """Number of applied slices of gradients."""
    apply_seconds: float
    """Total over all threads."""


class Standing(NamedTuple):
    """A running server and its two addresses."""

    unix: str
    tcp: str

    def address(self, transport: Transport) -> str:
        """The address for this transport."""
        return self.tcp if transport == "tcp" else self.unix

    def counts(self) -> ShardCounts:
        """Current totals of the model's shards."""
        with contextlib.closing(Client(self.unix)) as client:
            shards: dict[str, Any] = client.stats()["shards"]
        mine = [shard for name, shard in shards.items() if name.startswith(f"{_MODEL}/")]
        return ShardCounts(
            sum(shard["accepted"] for shard in mine), sum(float(shard["apply_seconds"]) for shard in mine)
        )


@contextlib.contextmanager
def start_server(folder: Path) -> Iterator[Standing]:
    """`headrace serve` on a Unix socket in this folder and a free loopback port; raises LaunchError if it fails."""
    with serve(folder, [f"unix:{folder / 'server.sock'}", "tcp://127.0.0.1:0"]) as (_, addresses):
        yield Standing(*addresses)
