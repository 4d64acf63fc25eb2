"""Reports of a role that has nothing else to report."""

import json
from typing import Any

from headrace.clock import monotonic
from headrace.errors import ClosedError
from headrace.roles.base import REPORTS, Role, Stop
from headrace.servers.base import RoleServer

__all__ = ["Heartbeat"]

_PERIOD_SECONDS = 1.0


class Heartbeat:
    """Reports about once a second that a role is alive; no report in the phase "environment" means that one hangs.

    `more` is what the run needs besides the role to accept the report. One thread.
    """

    def __init__(self, role: Role, server: RoleServer, stop: Stop, **more: Any) -> None:
        self._record = {"role": role.kind, "index": role.index, "generation": role.generation, **more}
        self._server = server
        self._stop = stop
        self._next = 0.0
        self._phase = ""

    def enter(self, phase: str) -> None:
        """Enters a phase and reports it immediately."""
        self._phase, self._next = phase, 0.0
        self()

    def __call__(self) -> None:
        """Raises ClosedError if the role was asked to stop."""
        if self._stop.is_set():
            raise ClosedError("the role was asked to stop")
        now = monotonic()
        if now >= self._next:
            self._next = now + _PERIOD_SECONDS
            self._server.put(REPORTS, json.dumps({**self._record, "phase": self._phase}).encode())
