"""Lower bounds on time, in plain C: a gather, a pass over vectors, round trips and streams over a socket."""

import ctypes
import itertools
import mmap
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experience import N_STEP
from headrace.types import Array

__all__ = ["BareConnection", "bare_connection", "memory_pass", "random_gather"]


def _compile(source: str, to: Path, *options: str) -> Path:
    """Compiles a C file of this folder for this machine."""
    path = Path(__file__).with_name(source)
    subprocess.run(["cc", "-O3", "-march=native", *options, path, "-o", to], check=True)
    return to


def _library(source: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return ctypes.CDLL(str(_compile(source, Path(folder) / "library.so", "-shared", "-fPIC")))


def random_gather(
    stored_bytes: int, frame_bytes: int, stack: int, observation: Array, next_observation: Array
) -> Callable[[], None]:
    """A call that copies one batch from random frames of `stored_bytes` on huge pages, like a sample of stacks.

    The memory access is a sample's: equally many bytes are stored, positions are frame boundaries in ascending order as
    in a stratified sample, and the next stack begins n frames after the first. Each call uses other positions; the
    batch is written to the same place as a sample.
    """
    gather = _library("gather.c").gather
    frames = stored_bytes // frame_bytes
    memory = mmap.mmap(-1, frames * frame_bytes)
    memory.madvise(mmap.MADV_HUGEPAGE)
    source = np.frombuffer(memory, np.uint8)
    rng = np.random.default_rng(0)
    source[:] = rng.integers(0, 256, len(source), np.uint8)
    batch = len(observation)
    places: list[NDArray[np.uint64]] = [
        np.sort(rng.integers(0, frames - stack - N_STEP + 1, batch)).astype(np.uint64) * np.uint64(frame_bytes)
        for _ in range(64)
    ]
    turn = itertools.cycle(places)

    def copy() -> None:
        gather(
            ctypes.c_void_p(source.ctypes.data),
            ctypes.c_void_p(next(turn).ctypes.data),
            ctypes.c_size_t(batch),
            ctypes.c_size_t(stack * frame_bytes),
            ctypes.c_size_t(N_STEP * frame_bytes),
            ctypes.c_void_p(observation.ctypes.data),
            ctypes.c_void_p(next_observation.ctypes.data),
        )

    return copy


def memory_pass(count: int) -> Callable[[], None]:
    """A call that reads parameters, optimizer state and a gradient [P] on huge pages, and writes the first two."""
    one_pass = _library("pass.c").one_pass
    vectors = []
    for _ in range(3):
        memory = mmap.mmap(-1, count * 4)
        memory.madvise(mmap.MADV_HUGEPAGE)
        vectors.append(np.frombuffer(memory, np.float32))
        vectors[-1][:] = 1e-3
    pointers = [ctypes.c_void_p(vector.ctypes.data) for vector in vectors]

    def run() -> None:
        one_pass(*pointers, ctypes.c_size_t(len(vectors[0])))

    return run


class BareConnection:
    """A connected socket in blocking mode, used by bare_client.c."""

    def __init__(self, peer: socket.socket, server: int) -> None:
        self._peer = peer
        self._server = server  # process id
        self._library = _library("bare_client.c")

    def round_trips(self, request_bytes: int, reply_bytes: int, count: int) -> None:
        """Makes `count` round trips of a message each way, with headers of 24 bytes."""
        size = ctypes.c_size_t
        self._check(self._library.round_trips(self._peer.fileno(), size(request_bytes), size(reply_bytes), size(count)))

    def round_trips_on_one_core(self, request_bytes: int, reply_bytes: int, count: int) -> None:
        """The same with both ends on one core, where no sleeping core has to be woken."""
        cores = os.sched_getaffinity(0)
        first = {min(cores)}
        os.sched_setaffinity(0, first)
        os.sched_setaffinity(self._server, first)
        try:
            self.round_trips(request_bytes, reply_bytes, count)
        finally:
            os.sched_setaffinity(0, cores)
            os.sched_setaffinity(self._server, cores)

    def receive(self, buffers: list[Array], count: int) -> None:
        """Sends one request and receives `count` full buffers, into these in turn."""
        size = ctypes.c_size_t
        pointers = (ctypes.c_void_p * len(buffers))(*[buffer.ctypes.data for buffer in buffers])
        self._check(
            self._library.receive_stream(
                self._peer.fileno(), pointers, size(len(buffers)), size(buffers[0].nbytes), size(count)
            )
        )

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            raise ConnectionError("the bare server is gone")


@contextmanager
def bare_connection(transport: str, buffer_bytes: int = 0) -> Iterator[BareConnection]:
    """A connection of this kind, "unix" or "tcp", to a bare server in a separate process.

    Both ends request socket buffers of this many bytes; 0 means the system's default.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = _compile("bare_server.c", Path(folder) / "bare_server")
        path = f"{folder}/socket"
        arguments = [transport, str(buffer_bytes), *([path] if transport == "unix" else [])]
        with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            peer = socket.socket(socket.AF_UNIX if transport == "unix" else socket.AF_INET)
            peer.connect(path if transport == "unix" else ("127.0.0.1", port))
            if transport == "tcp":
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if buffer_bytes:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            try:
                yield BareConnection(peer, server.pid)
            finally:
                peer.close()  # which also ends the server
