"""Calls of an environment other than steps and resets: they are rare, so each has a name while it runs."""

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Call", "calling", "open_call"]


class Call(NamedTuple):
    """A call that has not returned."""

    number: int  # of this thread's calls
    what: str


_open: dict[int, Call] = {}  # by thread; each thread writes its own
_numbers: dict[int, int] = {}


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """A context for one call of an environment in this thread."""
    thread = threading.get_ident()
    before = _open.get(thread)
    _numbers[thread] = _numbers.get(thread, 0) + 1
    _open[thread] = Call(_numbers[thread], what)
    try:
        yield
    finally:
        if before is None:
            del _open[thread]
        else:
            _open[thread] = before


def open_call(thread: int) -> Call | None:
    """The call that a thread is in; any thread may call it."""
    return _open.get(thread)
