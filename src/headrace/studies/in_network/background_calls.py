"""Calls in a background thread, for callers that do not wait for the result."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

__all__ = ["BackgroundCalls"]

_AHEAD = 8


class BackgroundCalls:
    """Makes calls in order in its own thread; with 8 calls pending, a caller waits for the first. One caller."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._pending: deque[Future[Any]] = deque()

    def send(self, call: Callable[..., object], *arguments: object) -> None:
        """Schedules a call; raises the error of an earlier one."""
        while self._pending and (len(self._pending) >= _AHEAD or self._pending[0].done()):
            self._pending.popleft().result()
        self._pending.append(self._executor.submit(call, *arguments))

    def finish(self) -> None:
        """Waits until all calls are done; raises the first error."""
        while self._pending:
            self._pending.popleft().result()

    def close(self) -> None:
        """Drops calls that have not started, and waits for the running one."""
        self._executor.shutdown(cancel_futures=True)
