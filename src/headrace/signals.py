"""Ctrl-C, SIGTERM and SIGHUP while no other code handles them, and the end of the parent process."""

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from weakref import WeakSet

__all__ = ["die_with_parent", "held_back", "interruptible", "replaceable", "set_handler"]

Handler = Callable[[int, FrameType | None], object]

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_handlers: WeakSet[Handler] = WeakSet()
"""Those that forked processes must not inherit."""


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent dies (Linux). One system call: it may follow a fork."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_handler(number: int, handler: Handler) -> Any:
    """As `signal.signal()`, for this process only: those that environments and callbacks fork get the default."""
    _handlers.add(handler)
    return signal.signal(number, handler)


def replaceable(number: int) -> bool:
    """Whether a signal is ours to handle: not an ignored SIGHUP (nohup), nor one with a handler of another language.

    The latter could not be restored.
    """
    former = signal.getsignal(number)
    return former is not None and not (number == signal.SIGHUP and former == signal.SIG_IGN)


def _forget_handlers() -> None:
    """In a forked process, lets signals end it again, without word to the parent's watcher."""
    inherited = [number for number in _NUMBERS if signal.getsignal(number) in _handlers]
    for number in inherited:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if inherited:
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_forget_handlers)


@contextlib.contextmanager
def interruptible(*, last: bool = False) -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    An ignored SIGHUP (nohup) stays ignored. The context has an effect only in the main thread. `last`: the process ends
    after it, and ignores signals, so that none changes its exit code.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt, last=last):
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """A context in which the first signal raises KeyboardInterrupt only at its end or error, and a second one at once.

    It protects imports, in which an exception may be lost or end in a traceback, and what must happen as a whole.
    """
    held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal held
        if held:
            raise KeyboardInterrupt
        held = True

    try:
        with _handled(hold):
            yield
    finally:
        if held:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(handler: Handler, *, last: bool = False) -> Iterator[None]:
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            if replaceable(number):
                before[number] = set_handler(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_IGN if last else former)
