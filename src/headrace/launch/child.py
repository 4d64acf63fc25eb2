"""The process of one role.

Its arguments are the role's kind and index, by which others find the process, and the launcher's process id. Role and
endpoint come on stdin as JSON: an address may contain a password, and arguments are readable by all users.
"""

import contextlib
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

from headrace.clock import sleep
from headrace.errors import ClosedError, HeadraceError, error_line
from headrace.fields import read_json
from headrace.launch.base import RoleStart, fault_of, run_role
from headrace.launch.leaving import leave_soon
from headrace.launch.processes import FAULT_STATUSES
from headrace.signals import die_with_parent, set_handler


class _Request:
    """A `Stop` that a signal handler may set at any moment, also during wait(): it has no lock."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Sets it. Waits go on to their ends; the handler's exception ends that of the main thread."""
        self._set = True

    def wait(self, timeout: float) -> bool:
        """Waits for these seconds; returns whether it is set."""
        if not self._set:
            sleep(timeout)
        return self._set


def die_with(parent: int) -> None:
    """Makes this process die with its parent, also if the parent is dead already."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Runs the role until SIGTERM or until the server is gone."""
    die_with(int(sys.argv[-1]))
    for number in (signal.SIGINT, signal.SIGHUP):  # they may reach the whole group; the parent decides
        signal.signal(number, signal.SIG_IGN)
    stop = _Request()

    def finish(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        raise ClosedError("asked to stop")  # interrupts any wait

    set_handler(signal.SIGTERM, finish)
    status = 0
    with contextlib.suppress(ClosedError):  # SIGTERM may come after the role's end
        status = _run(stop)
    _leave(status)


def _run(stop: _Request) -> int:
    """Runs the role that stdin names; returns the exit status of this process."""
    try:
        given = read_json(RoleStart, sys.stdin.read(), "a role's start")
        run_role(given.role, given.endpoint, stop)
    except ClosedError:
        return 0
    except Exception as error:
        if stop.is_set():  # what an environment made of the handler's exception
            return 0
        known = isinstance(error, HeadraceError)
        if not known:
            traceback.print_exc()
        print(error if known else error_line(error), file=sys.stderr)
        fault = fault_of(error)
        return FAULT_STATUSES[fault] if fault else 1
    return 0


def _leave(status: int) -> NoReturn:
    """Exits even if threads or exit functions of an environment do not end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave_soon(status, quiet=status != 0)  # the last line must be the role's error
    sys.exit(status)


if __name__ == "__main__":
    main()
