"""What happens to the roles of a run: shown, recorded, and summed up."""

from collections import Counter
from typing import Any

from headrace.launch.base import Exit
from headrace.roles.acting_role import ActingRole
from headrace.roles.base import Role
from headrace.roles.evaluator import EvaluatorRole
from headrace.training.session import Session

__all__ = ["RoleEvents"]


class RoleEvents:
    """Implements `Observer`. One thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._places: dict[str, str] = {}
        self._placed: set[str] = set()  # names of roles that have had a place
        self.exits: list[dict[str, Any]] = []
        """Every death of a role since this start of the run: its name, the reason, and the time on the clock."""

    @property
    def places(self) -> dict[str, int]:
        """Number of roles on each machine; empty if all run on this one."""
        return dict(Counter(self._places.values()))

    def on_exit(self, ended: Exit, again: bool) -> None:
        """A death of a role; `again` says whether it is started again."""
        role = ended.role
        self._places.pop(role.name, None)
        if isinstance(role, ActingRole):
            self._session.monitor.forget(role.index)
        elif isinstance(role, EvaluatorRole):
            self._session.evaluations.repeat()
        self._session.display.message(
            f"{role.name} died ({ended.reason}): {ended.message}" + ("; restarting it" if again else "")
        )
        reason = f"{ended.reason}: {ended.message}"
        self.exits.append({"role": role.name, "reason": reason, "seconds": self._session.clock.seconds})
        self._session.record_event("exit", **self.exits[-1])

    def on_place(self, role: Role, place: str) -> None:
        """The machine on which a role was started; shown if it was started before."""
        if role.name in self._placed:
            self._session.display.message(f"{role.name} runs on {place} now")
        self._places[role.name] = place
        self._placed.add(role.name)
        self._session.record_event("place", role=role.name, place=place)

    def on_wait(self, waiting: int, roles: int) -> None:
        """How many of all roles have no room."""
        self._session.display.message(
            f"{waiting} of {roles} processes wait for a node that has room" if waiting else f"all {roles} processes run"
        )
