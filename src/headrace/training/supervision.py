"""Supervises the roles of a run: restarts those that die, and stops the run if that does not help."""

import dataclasses
from typing import NamedTuple, Protocol

from headrace.clock import monotonic
from headrace.launch.base import Exit, Launcher
from headrace.launch.deaths import Deaths, too_many_deaths
from headrace.roles.base import Role
from headrace.roles.messages import Report

__all__ = ["Observer", "Supervisor"]

_START_SECONDS = 300.0
"""How long a role may take at least to its first report: on a busy machine or a slow disk, imports take minutes."""
_SILENT_SECONDS = 5.0
"""How long a role may send no heartbeat at least: it sends about one a second."""
_SETTLE_SECONDS = 10.0
"""How long the set of roles without room must not change before it is reported."""


class Observer(Protocol):
    """What a supervisor reports about its roles."""

    def on_exit(self, ended: Exit, again: bool) -> None:
        """Every death of a role, with whether the role is started again."""

    def on_place(self, role: Role, place: str) -> None:
        """The machine on which a role was started, if it is not certain to be this one."""

    def on_wait(self, waiting: int, roles: int) -> None:
        """How many of all roles have no room, each time this number has settled at another value."""


class _Heartbeat(NamedTuple):
    """A role's last heartbeat: its phase, how long it had made no progress, and when the heartbeat arrived."""

    phase: str
    stalled_seconds: float
    arrived: float  # monotonic()
    first: bool = False  # True: it was started then, and has not reported yet


class Supervisor:
    """Starts and supervises roles. One thread.

    `hang_seconds` limits the duration of one environment step and, if it is longer than a few seconds, the time without
    a heartbeat, once a role has reported.
    """

    def __init__(self, launcher: Launcher, roles: list[Role], hang_seconds: float, observer: Observer) -> None:
        self._launcher = launcher
        self._roles = {role.name: role for role in roles}
        self._hang_seconds = hang_seconds
        self._observer = observer
        self._deaths = {name: Deaths() for name in self._roles}
        self._heartbeats: dict[str, _Heartbeat] = {}
        self._unplaced: set[str] = set()
        self._waiting = self._reported_waiting = 0
        self._waiting_since = monotonic()

    def start(self) -> None:
        """Starts every role, but for those that stop() has ended."""
        for role in self._roles.values():
            self._start(role)

    def receive(self, report: Report) -> None:
        """Treats any report as a heartbeat."""
        role = self._roles.get(f"{report['role']} {report['index']}")
        if role is not None and report["generation"] == role.generation:
            self._heartbeats[role.name] = _Heartbeat(report["phase"], report["stalled_seconds"], monotonic())

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the time without a heartbeat: reports could not arrive or were not read."""
        now = monotonic()
        for name, heartbeat in self._heartbeats.items():
            self._heartbeats[name] = heartbeat._replace(arrived=min(now, heartbeat.arrived + seconds))

    def forget_deaths(self) -> None:
        """Counts deaths from now on: earlier ones had a cause that is gone."""
        self._deaths = {name: Deaths() for name in self._deaths}

    def check(self) -> None:
        """Checks every role and restarts those that died or hang.

        Raises the error of a role that a restart would not help, LaunchError for the third death within a minute.
        """
        for ended in self._launcher.poll():
            self._handle_exit(ended)
        for role in list(self._roles.values()):
            if not self._has_place(role):
                self._heartbeats[role.name] = _Heartbeat("", 0.0, monotonic(), first=True)
                continue
            reason = self._hang(self._heartbeats[role.name])
            if reason:
                self._launcher.kill(role)
                self._handle_exit(Exit(role, "killed", fault=None, message=reason), self._hang_seconds)

        self._report_waiting()

    def stop(self, but: str = "") -> None:
        """Ends all roles but those of one kind; they are no longer supervised."""
        ended = [role for role in self._roles.values() if role.kind != but]
        for role in ended:
            del self._roles[role.name]
            self._unplaced.discard(role.name)
        self._launcher.stop(ended)

    def _start(self, role: Role) -> None:
        self._heartbeats[role.name] = _Heartbeat("", 0.0, monotonic(), first=True)
        self._launcher.start(role)
        self._unplaced.add(role.name)

    def _has_place(self, role: Role) -> bool:
        if role.name not in self._unplaced:
            return True
        place = self._launcher.place(role)
        if place is None:
            return False
        self._unplaced.remove(role.name)
        if place:
            self._observer.on_place(role, place)
        return True

    def _report_waiting(self) -> None:
        now = monotonic()
        if len(self._unplaced) != self._waiting:
            self._waiting, self._waiting_since = len(self._unplaced), now
        if self._waiting != self._reported_waiting and now - self._waiting_since >= _SETTLE_SECONDS:
            self._reported_waiting = self._waiting
            self._observer.on_wait(self._waiting, len(self._roles))

    def _hang(self, heartbeat: _Heartbeat) -> str | None:
        limit = max(self._hang_seconds, _START_SECONDS) if heartbeat.first else self._hang_seconds
        if heartbeat.phase == "environment" and heartbeat.stalled_seconds > limit:
            return f"its environment has not returned for {heartbeat.stalled_seconds:.0f} s; {limit:.0f} s are allowed"
        elapsed, limit = monotonic() - heartbeat.arrived, max(limit, _SILENT_SECONDS)
        if elapsed > limit and heartbeat.phase == "environment":
            return f"its environment has not returned for {elapsed:.0f} s; {limit:.0f} s are allowed"
        if elapsed > limit:
            return f"it has sent no heartbeat for {elapsed:.0f} s; {limit:.0f} s are allowed"
        return None

    def _handle_exit(self, ended: Exit, hung_seconds: float = 0.0) -> None:
        role = ended.role
        if ended.fault:
            raise ended.fault(ended.message)
        heartbeat = self._heartbeats[role.name]
        if heartbeat.first:  # it has not begun: however long it tried, that does not count
            hung_seconds = monotonic() - heartbeat.arrived
        again = ended.node_lost or self._deaths[role.name].add(hung_seconds)
        self._observer.on_exit(ended, again)
        if not again:
            raise too_many_deaths(ended)
        successor = dataclasses.replace(role, generation=role.generation + 1)
        self._roles[role.name] = successor
        self._start(successor)
