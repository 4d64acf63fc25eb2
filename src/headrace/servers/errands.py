"""Calls whose answer nobody waits for."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

__all__ = ["Errands"]

_AHEAD = 8


class Errands:
    """Makes calls one after another in a thread of its own; whoever is 8 ahead waits for the first. One caller."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._pending: deque[Future[Any]] = deque()

    def send(self, call: Callable[..., object], *arguments: object) -> None:
        """Has a call made soon; raises what an earlier one raised."""
        while self._pending and (len(self._pending) >= _AHEAD or self._pending[0].done()):
            self._pending.popleft().result()
        self._pending.append(self._executor.submit(call, *arguments))

    def finish(self) -> None:
        """Waits until every call is made; raises what the first that failed raised."""
        while self._pending:
            self._pending.popleft().result()

    def forget(self) -> None:
        """Waits until every call is made, whatever came of it."""
        while self._pending:
            self._pending.popleft().exception()

    def close(self) -> None:
        """Drops what has not begun, and waits for what has."""
        self._executor.shutdown(cancel_futures=True)
