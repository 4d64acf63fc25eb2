"""Ends a run whose own process hangs in an environment's step."""

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from headrace.errors import EnvironmentFault
from headrace.roles.clock import PhaseClock, Stillness

__all__ = ["HangWatch"]

_FAULT_STATUS = 2
_GRACE_SECONDS = 5.0


class HangWatch:
    """A context in which EnvironmentFault is raised in the main thread once a step takes longer than `limit_seconds`.

    An environment that hangs in native code can't be interrupted: 5 seconds later the process says so and ends.
    Without a clock, or outside the main thread, nothing is watched.
    """

    def __init__(self, clock: PhaseClock | None, limit_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._clock is not None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGUSR1, self._raise)
            self._thread = threading.Thread(target=self._watch, args=(self._clock,), name="hang-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            signal.signal(signal.SIGUSR1, self._before)

    def _watch(self, clock: PhaseClock) -> None:
        still = Stillness(clock)
        while not self._closed.wait(min(1.0, self._limit_seconds / 4)):
            if clock.phase == "environment" and still.seconds() > self._limit_seconds:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                if not self._closed.wait(_GRACE_SECONDS):
                    print(f"headrace: error: {self._message()}", file=sys.stderr, flush=True)
                    os._exit(_FAULT_STATUS)
                return

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        raise EnvironmentFault(self._message())

    def _message(self) -> str:
        return f"the environment has not returned for more than {self._limit_seconds:.0f} s; the run can't go on"
