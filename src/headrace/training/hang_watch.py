"""Ends environment calls that hang in this process."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

from headrace.clock import Thread, monotonic, new_event, start_thread
from headrace.environments.calls import open_call
from headrace.errors import EnvironmentFault, HeadraceError, error_line
from headrace.launch.guard import Guard
from headrace.roles.clock import PhaseClock

__all__ = ["HangWatch", "environment_faults", "watched"]

_FAULT_STATUS = 2
_GRACE_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
_PERIOD_SECONDS = 1.0


@contextlib.contextmanager
def watched(limit_seconds: float, clock: PhaseClock | None = None) -> Iterator[None]:
    """A context with a guard and a watch, for environments outside a run."""
    with Guard("headrace") as guard, HangWatch(limit_seconds, guard) as watch, watch.watching(clock):
        yield


@contextlib.contextmanager
def environment_faults() -> Iterator[None]:
    """A context for calls of environments: what they raise is a fault of the environment, in one line."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:  # environments may raise anything
        raise EnvironmentFault(error_line(error)) from error


class HangWatch:
    """A context in which the main thread gets an EnvironmentFault when a call of an environment takes too long.

    The first call is allowed `limit_seconds`; calls after one that hung are allowed 5 seconds, so that shutdown does
    not hang too. A call in native code that the exception does not interrupt ends the process 5 seconds later, with one
    line. `guard` ends a call that holds Python's lock. Time in which the process is stopped does not count. Outside the
    main thread nothing is watched but roles: see `watch_roles()`. The exception is raised by SIGUSR1, whose handler is
    replaced meanwhile; signals that others send go to the program's own Python handler, if it has one.
    """

    def __init__(self, limit_seconds: float, guard: Guard) -> None:
        self._limit_seconds = limit_seconds
        self._guard = guard
        self._clock: PhaseClock | None = None
        self._watching = False
        self._roles: Callable[[], tuple[str, int] | None] = lambda: None
        self._hung: tuple[object, ...] | None = None  # the call that the main thread must leave, or a role's turn
        self._message = ""
        self._closed = new_event()
        self._thread: Thread | None = None
        self._before: Any = None
        self._sent = False  # the signal that the main thread has not handled yet

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGUSR1, self._handle)
            self._thread = start_thread(self._watch, "hang-watch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            if self._before is not None:  # a handler of another language can't be restored
                signal.signal(signal.SIGUSR1, self._before)

    @contextlib.contextmanager
    def watching(self, clock: PhaseClock | None = None) -> Iterator[None]:
        """Watches constructors and close(); with a clock, also steps and resets, by its phase "environment"."""
        if self._thread is None:
            yield
            return
        self._clock = clock
        self._watching = True
        self._guard.allow(self._limit_seconds)
        try:
            yield
        finally:
            self._watching = False
            self._guard.allow(0.0)

    def watch_roles(self, progress: Callable[[], tuple[str, int] | None]) -> None:
        """Watches the roles in this process too, by `Site.progress`; nothing but the end of the process ends them."""
        self._roles = progress

    def hurry(self) -> None:
        """Allows a call 10 seconds at most from now on: the run was asked to stop, and waits for one."""
        self._limit_seconds = min(self._limit_seconds, _PATIENCE_SECONDS)

    def _progress(self) -> tuple[object, ...] | None:
        """Changes with every call of the environment, and with every turn of a role; None outside both."""
        role = self._roles()
        if role is not None:
            return role
        if not self._watching:
            return None
        call = open_call(threading.main_thread().ident or 0)
        if call is not None:
            return call
        clock = self._clock
        return clock.progress if clock is not None and clock.phase == "environment" else None

    def _watch(self) -> None:
        period = min(_PERIOD_SECONDS, self._limit_seconds / 4)
        progress, stalled, limit, before = None, 0.0, self._limit_seconds, monotonic()
        while not self._closed.wait(period):
            self._guard.beat()
            now, last = monotonic(), progress
            elapsed, before = min(now - before, 2 * period), now
            progress = self._progress()
            limit = min(limit, self._limit_seconds)
            stalled = stalled + elapsed if progress is not None and progress == last else 0.0
            if progress is None:
                continue
            if progress != self._hung and stalled > limit:
                call = open_call(threading.main_thread().ident or 0)
                role = self._roles()
                what = call.what if call else "step() of the environment"
                if role:
                    what = f"{role[0]}, which runs in this process,"
                self._message = f"{what} has not returned for more than {limit:.0f} s; the run can't continue"
                self._hung, stalled, limit = progress, 0.0, min(limit, _GRACE_SECONDS)
                self._sent = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            elif progress == self._hung and stalled > _GRACE_SECONDS:
                print(f"headrace: error: {self._message}", file=sys.stderr, flush=True)
                self._guard.mark_reported()
                os._exit(_FAULT_STATUS)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Of the watch's signal; one of others is the program's own."""
        if not self._sent:
            if callable(self._before):
                self._before(number, frame)
            return
        self._sent = False
        if self._hung is not None and self._progress() == self._hung:  # otherwise the call has returned in the meantime
            raise EnvironmentFault(self._message)
