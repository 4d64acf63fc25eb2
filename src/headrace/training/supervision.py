"""Watches the roles of a run: starts again what dies, and stops the run when that does not help."""

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Mapping

from headrace.errors import EnvironmentFault, LaunchError
from headrace.launch import Exit, Launcher
from headrace.roles.base import Role
from headrace.training.monitor import Sign

__all__ = ["DEATHS", "DEATHS_SECONDS", "Supervisor"]

DEATHS = 3
DEATHS_SECONDS = 60.0


class Supervisor:
    """One thread. `on_exit` hears of every death; `hang_seconds` bounds an actor's silence and its stay in step()."""

    def __init__(
        self, launcher: Launcher, roles: list[Role], hang_seconds: float, on_exit: Callable[[Exit], None]
    ) -> None:
        self._launcher = launcher
        self._roles = {role.name: role for role in roles}
        self._hang_seconds = hang_seconds
        self._on_exit = on_exit
        self._deaths: dict[str, deque[float]] = {name: deque(maxlen=DEATHS) for name in self._roles}
        self._started: dict[str, float] = {}

    def start(self) -> None:
        """Starts every role."""
        for role in self._roles.values():
            self._start(role)

    def check(self, signs: Mapping[int, Sign]) -> None:
        """Looks after every role, given the actors' last signs of life by index.

        Raises EnvironmentFault for a role that met a user's mistake, LaunchError for the third death in a minute.
        """
        for ended in self._launcher.poll():
            self._bury(ended)
        for role in list(self._roles.values()):
            if role.kind == "actor":
                reason = self._hang(role, signs.get(role.index))
                if reason:
                    self._launcher.kill(role)
                    self._bury(Exit(role, "killed", fault=False, message=reason))

    def _start(self, role: Role) -> None:
        self._started[role.name] = time.monotonic()
        self._launcher.start(role)

    def _hang(self, role: Role, sign: Sign | None) -> str | None:
        now = time.monotonic()
        limit = self._hang_seconds
        if sign is not None and sign.phase == "environment" and sign.phase_seconds > limit:
            return f"its environment has not returned for {sign.phase_seconds:.0f} s; {limit:.0f} s are allowed"
        heard = max(self._started[role.name], sign.heard if sign else 0.0)
        if now - heard > limit:
            return f"it has given no sign of life for {now - heard:.0f} s; {limit:.0f} s are allowed"
        return None

    def _bury(self, ended: Exit) -> None:
        role = ended.role
        if ended.fault:
            raise EnvironmentFault(ended.message)
        self._on_exit(ended)
        deaths = self._deaths[role.name]
        deaths.append(time.monotonic())
        if len(deaths) == DEATHS and deaths[-1] - deaths[0] <= DEATHS_SECONDS:
            raise LaunchError(
                f"{role.name} died {DEATHS} times within a minute; its last end: {ended.reason}: {ended.message}"
            )
        renewed = dataclasses.replace(role, generation=role.generation + 1)
        self._roles[role.name] = renewed
        self._start(renewed)
