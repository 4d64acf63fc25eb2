"""SIGINT, SIGTERM and SIGHUP: the first asks the run to save and stop, the second stops it at once. And SIGCONT."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from headrace.signals import replaceable, set_handler

__all__ = ["Interrupts"]

_PATIENCE_SECONDS = 10.0


class Interrupts:
    """A context in which the first SIGINT, SIGTERM or SIGHUP sets `requested` and the next raises KeyboardInterrupt.

    An ignored SIGHUP (nohup) stays ignored, and so does a second SIGHUP, since a terminal that is closed sends two.
    `stops` counts how often the process was continued after a stop (Ctrl-Z).

    A run that waits may not notice `requested`: if acknowledge() does not follow within 10 seconds, `give_up` is
    called, in a separate thread. Signals belong to the main thread; in other threads the context has no effect.
    """

    def __init__(self, give_up: Callable[[], object]) -> None:
        self.requested = False
        self.gave_up = False
        self.stops = 0
        self._give_up = give_up
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._time_out)
        self._timer.daemon = True
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = self._handle  # one object for all, which is known as ours for as long as one signal has it
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if replaceable(number):
                    self._before[number] = set_handler(number, handler)
            self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._count_stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.acknowledge()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def acknowledge(self) -> None:
        """Cancels `give_up`: the run is about to end and no longer waits."""
        self._timer.cancel()

    def _time_out(self) -> None:
        self.gave_up = True
        self._give_up()

    def _count_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops += 1

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        if not self.requested:
            self.requested = True
            self._timer.start()
        elif number != signal.SIGHUP:
            raise KeyboardInterrupt
