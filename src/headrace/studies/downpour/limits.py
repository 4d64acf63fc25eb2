"""Lower bounds on time: a pass over the optimizer's memory, and a bare socket."""

import contextlib
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headrace.studies.downpour.cases import Transport

__all__ = ["MemoryPass", "bare_rate", "median_seconds"]

_REPLY_BYTES = _FRAME_BYTES = 64  # about the size of a frame without a gradient
_LEAST = 5


def median_seconds(call: Callable[[], object], seconds: float, least: int = _LEAST) -> float:
    """Median seconds of a call, over as many calls as fit in the time and at least `least`, after a warm-up."""
    call()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < until:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


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
    message_bytes = _FRAME_BYTES if transport == "shared" else gradient_bytes
    counts = [0] * pushers
    ended = threading.Event()
    message = bytes(message_bytes)

    def push(index: int, peer: socket.socket) -> None:
        while not ended.is_set():
            peer.sendall(message)
            _receive(peer, bytearray(_REPLY_BYTES))
            counts[index] += 1

    with _connections(transport, pushers) as pairs:
        threads = [threading.Thread(target=_answer, args=(there, message_bytes)) for _, there in pairs]
        threads += [threading.Thread(target=push, args=(index, here)) for index, (here, _) in enumerate(pairs)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 4)
        before, begin = sum(counts), time.perf_counter()
        time.sleep(seconds)
        rate = (sum(counts) - before) / (time.perf_counter() - begin)
        ended.set()
        for thread in threads[pushers:]:
            thread.join()
        for here, _ in pairs:
            here.close()  # ends the answering threads
        for thread in threads[:pushers]:
            thread.join()
    return rate


def _answer(peer: socket.socket, message_bytes: int) -> None:
    message = bytearray(message_bytes)
    while _receive(peer, message):
        peer.sendall(bytes(_REPLY_BYTES))


def _receive(peer: socket.socket, to: bytearray) -> bool:
    """Fills the bytes; returns False if the other end is closed."""
    view = memoryview(to)
    while view:
        received = peer.recv_into(view)
        if not received:
            return False
        view = view[received:]
    return True


@contextlib.contextmanager
def _connections(transport: Transport, count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with contextlib.ExitStack() as stack:
        if transport == "tcp":
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(Path(folder) / "bare.sock"))
            listener.listen()
        pairs = []
        for _ in range(count):
            here = stack.enter_context(socket.socket(listener.family))
            here.connect(listener.getsockname())
            there = stack.enter_context(listener.accept()[0])
            if transport == "tcp":
                for end in (here, there):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs.append((here, there))
        yield pairs
