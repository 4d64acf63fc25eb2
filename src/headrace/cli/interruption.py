"""Ctrl-C, SIGTERM and SIGHUP before and between what handles them itself."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["held_back", "interruptible"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    A SIGHUP that is ignored (nohup) stays ignored. Signals belong to the main thread: elsewhere nothing changes.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """A context at whose end the first signal raises KeyboardInterrupt; a second one does so at once.

    For imports: an exception in the middle of one may be lost, or end in a traceback.
    """
    held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal held
        if held:
            raise KeyboardInterrupt
        held = True

    with _handled(hold):
        yield
    if held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
