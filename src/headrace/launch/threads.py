"""Roles as threads of this process, for tests: state is visible and nothing has to be started."""

import threading
from collections.abc import Iterable

from headrace.clock import Event, new_event
from headrace.errors import ClosedError, HeadraceError, error_line
from headrace.launch.base import Exit, fault_of, run_role
from headrace.roles.base import Role, Stop
from headrace.servers import Endpoint

__all__ = ["ThreadLauncher"]

_JOIN_SECONDS = 10.0


class ThreadLauncher:
    """Implements `Launcher`. A thread can't be killed: a role that hangs is left running as a daemon."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._running: dict[str, tuple[threading.Thread, Event]] = {}
        self._exits: list[Exit] = []  # appended by role threads

    def start(self, role: Role) -> None:
        """Starts a role in a thread."""
        stop = new_event()
        thread = threading.Thread(target=self._run, args=(role, stop), name=role.name, daemon=True)
        self._running[role.name] = (thread, stop)
        thread.start()

    def place(self, role: Role) -> str:
        """Empty: this machine."""
        return ""

    def poll(self) -> list[Exit]:
        """Roles that ended with an error since the last call."""
        exits, self._exits = self._exits, []
        for ended in exits:
            self._running.pop(ended.role.name, None)
        return exits

    def kill(self, role: Role) -> None:
        """Asks a role to stop and forgets it."""
        self._running.pop(role.name)[1].set()

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to stop and joins them."""
        stopping = [self._running.pop(role.name) for role in roles if role.name in self._running]
        for _, stop in stopping:
            stop.set()
        for thread, _ in stopping:
            thread.join(_JOIN_SECONDS)

    def _run(self, role: Role, stop: Stop) -> None:
        try:
            run_role(role, self._endpoint, stop)
        except ClosedError:
            return
        except HeadraceError as error:
            self._exits.append(Exit(role, "error", fault=fault_of(error), message=str(error)))
        except Exception as error:
            self._exits.append(Exit(role, "error", fault=None, message=error_line(error)))
