"""How tests wait for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_for"]

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found], seconds: float = 120.0, said: Callable[[], object] = str) -> Found:
    """The first true value that `look` returns; fails after so many seconds, with what is said then."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it did not happen in time {said()}"
        time.sleep(0.005)
    return found
