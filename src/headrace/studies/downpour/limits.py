"""Lower bounds on time: a pass over the optimizer's memory, and a bare socket."""

import socket
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

from headrace.studies.downpour.cases import Transport

__all__ = ["LEAST_CALLS", "MemoryPass", "bare_rate", "median_seconds", "repeat"]

LEAST_CALLS = 5
_REPLY_BYTES = _FRAME_BYTES = 64  # about the size of a frame without a gradient


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
        self._statistics = np.ones(count, np.float32)

    def run(self) -> None:
        """One pass: three arrays read, two written, with minimal arithmetic."""
        np.add(self.parameters, self.gradient, out=self.parameters)
        np.negative(self._statistics, out=self._statistics)

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

    pairs = [_connect(transport) for _ in range(pushers)]
    threads = [threading.Thread(target=reply, args=(there,)) for _, there in pairs]
    threads += [threading.Thread(target=push, args=(index, here)) for index, (here, _) in enumerate(pairs)]
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
