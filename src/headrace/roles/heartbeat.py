"""Reports of a role at regular times."""

import json
from collections.abc import Callable

from headrace.clock import monotonic
from headrace.errors import ClosedError
from headrace.roles.base import Role, Stop
from headrace.roles.messages import REPORTS, Figures, Report
from headrace.servers.base import RoleServer

__all__ = ["Heartbeat", "send_report"]

_PERIOD_SECONDS = 1.0


class Heartbeat:
    """Reports about once a second that a role is alive; no report in the phase "environment" means that one hangs.

    `figures` returns what else a report says. One thread.
    """

    def __init__(self, role: Role, server: RoleServer, stop: Stop, figures: Callable[[], Figures] = Figures) -> None:
        self._role = role
        self._server = server
        self._stop = stop
        self._figures = figures
        self._next = 0.0
        self._phase = ""

    def enter(self, phase: str) -> None:
        """Enters a phase and reports it immediately."""
        self._phase, self._next = phase, 0.0
        self()

    def __call__(self) -> None:
        """Reports if it is time; raises ClosedError if the role was asked to stop."""
        if self._stop.is_set():
            raise ClosedError("the role was asked to stop")
        now = monotonic()
        if now >= self._next:
            self._next = now + _PERIOD_SECONDS
            self.send(self._server, self._figures())

    def send(self, server: RoleServer, figures: Figures) -> None:
        """Reports these figures now, over this connection: a request to stop may have interrupted the role's own."""
        send_report(server, self._role, self._phase, 0.0, figures)


def send_report(server: RoleServer, role: Role, phase: str, stalled_seconds: float, figures: Figures) -> None:
    """Reports these figures, and for how long the phase has shown no progress."""
    report: Report = {
        "role": role.kind,
        "index": role.index,
        "generation": role.generation,
        "phase": phase,
        "stalled_seconds": stalled_seconds,
        **figures,
    }
    server.put(REPORTS, json.dumps(report).encode())
