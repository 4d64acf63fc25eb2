"""Ctrl-C and SIGTERM: the first asks the run to save and stop, the second stops it at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupts"]


class Interrupts:
    """A context in which the first SIGINT or SIGTERM sets `requested` and the next raises KeyboardInterrupt.

    Signals belong to the main thread: elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
