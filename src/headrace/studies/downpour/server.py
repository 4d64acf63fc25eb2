"""The network of Ong et al. as a model in a server's process; lower bounds on the time of its updates."""

import contextlib
import dataclasses
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import Client, OptimizerOptions, ShardedModel
from headrace.networks.architecture import Architecture
from headrace.studies.base import Case
from headrace.studies.downpour.training import ONG
from headrace.studies.processes import serve
from headrace.types import EnvironmentSpec

__all__ = [
    "FLOAT_BYTES", "LEAST_CALLS", "OPTIMIZER", "MemoryPass", "ServerCase", "ShardCounts", "Standing", "Transport",
    "bare_rate", "median_seconds", "open_model", "parameter_count", "repeat", "spec_of", "start_server",
]  # fmt: skip

Transport = Literal["shared", "unix", "tcp"]
"""Gradients in memory shared with the server, in frames over a Unix socket, or over TCP on this machine's loopback."""
FLOAT_BYTES = 4
LEAST_CALLS = 5
OPTIMIZER = OptimizerOptions(
    ONG.optimizer, learning_rate=ONG.learning_rate, decay=ONG.optimizer_decay, epsilon=ONG.optimizer_epsilon
)
"""RMSprop, as published."""
_MODEL = "downpour"
"""The model's name on the server."""
_ACTIONS, _STACK = 4, 4
_REPLY_BYTES = _FRAME_BYTES = 64  # about the size of a frame without a gradient


@dataclasses.dataclass(frozen=True)
class ServerCase(Case):
    """A measurement of the server with their network for frames of this side length."""

    pixels: int
    transport: Transport

    def settings(self) -> list[object]:
        """The fields, and their settings, which all cases have in common."""
        return [dataclasses.asdict(self), dataclasses.asdict(ONG)]


def spec_of(pixels: int) -> EnvironmentSpec:
    """Snake with frames of this side length in pixels."""
    return EnvironmentSpec((pixels, pixels), "uint8", _ACTIONS, _STACK)


def parameter_count(pixels: int) -> int:
    """Number of parameters of the network for these frames."""
    return Architecture.of(spec_of(pixels), ONG.network, ONG.hidden).layout.size


def open_model(address: str, transport: Transport, initial: NDArray[np.float32], shards: int = 1) -> ShardedModel:
    """Opens the model on a server; creates it with these values if it does not exist."""
    model = ShardedModel([address], _MODEL, len(initial), shards=shards, share=transport == "shared")
    model.open(OPTIMIZER, initial, fresh=False)
    return model


class ShardCounts(NamedTuple):
    """Totals over all shards of the model, from the server; both only increase."""

    accepted: int
    """Number of applied slices of gradients."""
    apply_seconds: float
    """Total over all threads."""

    def seconds_each(self, before: "ShardCounts") -> float:
        """Mean seconds of a slice since then."""
        return (self.apply_seconds - before.apply_seconds) / (self.accepted - before.accepted)


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
        return ShardCounts(sum(shard["accepted"] for shard in mine), sum(shard["apply_seconds"] for shard in mine))


@contextlib.contextmanager
def start_server(folder: Path) -> Iterator[Standing]:
    """`headrace serve` on a Unix socket in this folder and a free loopback port; raises LaunchError if it fails."""
    with serve(folder, [f"unix:{folder / 'server.sock'}", "tcp://127.0.0.1:0"]) as (_, addresses):
        yield Standing(*addresses)


def repeat(call: Callable[[], object], seconds: float, least: int = LEAST_CALLS) -> list[float]:
    """The seconds of as many calls as fit in the time, and at least `least`."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < until:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def median_seconds(call: Callable[[], object], seconds: float, least: int = LEAST_CALLS) -> float:
    """Median seconds of repeated calls, after one that warms up."""
    call()
    return statistics.median(repeat(call, seconds, least))


class MemoryPass:
    """Passes over memory like RMSprop's: reads parameters, state and gradient; writes the first two in place."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.parameters, self.gradient, self._copy = (rng.standard_normal(count, np.float32) for _ in range(3))
        self.statistics = np.ones(count, np.float32)

    def run(self) -> None:
        """One pass: three arrays read, two written, with minimal arithmetic."""
        np.add(self.parameters, self.gradient, out=self.parameters)
        np.negative(self.statistics, out=self.statistics)

    def copy(self) -> None:
        """Copies the gradient once: the lower bound of a push into shared memory."""
        np.copyto(self._copy, self.gradient)


def bare_rate(transport: Transport, pushers: int, gradient_bytes: int, seconds: float) -> float:
    """Gradients per second over this many bare connections, each answered before the next.

    For gradients in shared memory, only a small frame is sent. Both ends are threads of this process, which hold no
    lock while they send and receive.
    """
    message = bytes(_FRAME_BYTES if transport == "shared" else gradient_bytes)
    counts = [0] * pushers
    ended = threading.Event()

    def push(index: int, peer: socket.socket) -> None:
        with peer:  # its end ends the answering thread
            while not ended.is_set():
                peer.sendall(message)
                peer.recv(_REPLY_BYTES, socket.MSG_WAITALL)
                counts[index] += 1

    def reply(peer: socket.socket) -> None:
        buffer = bytearray(len(message))
        with peer:
            while peer.recv_into(buffer, 0, socket.MSG_WAITALL) == len(buffer):
                peer.sendall(bytes(_REPLY_BYTES))

    threads = []
    for index in range(pushers):
        here, there = _connect(transport)
        threads.append(threading.Thread(target=reply, args=(there,)))
        threads.append(threading.Thread(target=push, args=(index, here)))
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)
    before, begin = sum(counts), time.perf_counter()
    time.sleep(seconds)
    rate = (sum(counts) - before) / (time.perf_counter() - begin)
    ended.set()
    for thread in threads:
        thread.join()
    return rate


def _connect(transport: Transport) -> tuple[socket.socket, socket.socket]:
    if transport != "tcp":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ends
