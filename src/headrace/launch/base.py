"""The contract of every launcher."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headrace.errors import ChunkRefused, ConfigError, DivergenceError, EnvironmentFault
from headrace.roles.base import Role

__all__ = ["FAULTS", "Exit", "Launcher", "last_words"]

FAULTS = (ConfigError, EnvironmentFault, ChunkRefused, DivergenceError)
"""A user's mistakes, and weights that went astray: a role that is started again would meet them again."""


class Exit(NamedTuple):
    """A role that ended by itself."""

    role: Role
    reason: str  # "exit 1", "killed by signal 9"
    fault: bool  # one of FAULTS, reported in `message`; starting it again would meet it again
    message: str  # its own error: the last line, or lines, that it wrote


class Launcher(Protocol):
    """Starts roles and watches them. One thread uses it."""

    def start(self, role: Role) -> None:
        """Starts a role; one of that name must not be running."""

    def poll(self) -> list[Exit]:
        """Roles that ended by themselves since the last call."""

    def kill(self, role: Role) -> None:
        """Ends a role at once; poll() does not report it."""

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to end, and ends those that do not; one that has ended already is no error."""


def last_words(error: Exception) -> str:
    """An unexpected exception in one line, with the notes that say where it was raised."""
    notes = "; ".join(getattr(error, "__notes__", []))
    return f"{type(error).__name__}: {' '.join(str(error).split())}" + (f" ({notes})" if notes else "")
