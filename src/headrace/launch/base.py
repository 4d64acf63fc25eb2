"""The contract of every launcher."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from headrace.errors import ChunkRefused, ConfigError, DivergenceError, EnvironmentFault, HeadraceError
from headrace.roles.base import Role, RoleContext, Stop
from headrace.servers import Endpoint

__all__ = ["FAULTS", "Exit", "Launcher", "RoleStart", "Site", "fault_of", "run_role"]

FAULTS: tuple[type[HeadraceError], ...] = (ConfigError, EnvironmentFault, ChunkRefused, DivergenceError)
"""A user's mistakes, and divergence: a restarted role would fail in the same way."""


class Exit(NamedTuple):
    """A role that ended by itself."""

    role: Role
    reason: str  # "exit 1", "killed by signal 9"
    fault: type[HeadraceError] | None  # one of FAULTS, reported in `message`; a restart would not help
    message: str  # the error: the last lines that the role wrote
    node_lost: bool = False  # its machine failed, not the role
    hung: bool = False  # it ended itself, since its environment did not return


class Launcher(Protocol):
    """Starts roles and watches them. Used by one thread.

    What each launcher does for the process of a role: it sets `processes.child_environment()` before the process
    imports anything, sends a `RoleStart` and has `run_role` called, keeps the output in a log, whose directory it
    creates, and ends the process when the launcher itself dies. What `run_role` raises becomes an `Exit`: an error of
    FAULTS is its `fault`, the last line of the log its `message`, and exit status `HANG_STATUS` makes it `hung`.
    """

    def start(self, role: Role) -> None:
        """Starts a role; no role with this name may be running."""

    def place(self, role: Role) -> str | None:
        """The machine on which a role runs, empty for this one; None while no machine has room for it."""

    def poll(self) -> list[Exit]:
        """Roles that ended by themselves since the last call."""

    def kill(self, role: Role) -> None:
        """Ends a role immediately; poll() does not report it."""

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to end and kills those that do not; a role that has already ended is not an error."""


@dataclass(frozen=True)
class RoleStart:
    """What a launcher gives to the process of a role, as JSON."""

    role: Role
    endpoint: Endpoint


class Site(NamedTuple):
    """Where a launcher starts roles, and how they reach a server in the training process."""

    make_launcher: Callable[[Endpoint, Path], Launcher]
    """Makes the launcher from the server's endpoint and the directory for logs."""
    address: str = "unix:@"
    """Address at which the server listens."""
    token: str = ""
    """Secret that the server requires."""
    reconnect_seconds: float = 0.0
    """How long a role retries a lost connection."""
    server: Endpoint | None = None
    """The run's server, if the launcher has started one: then none is needed in the training process."""
    notices: tuple[str, ...] = ()
    """What the user is to know about that server: what it found, and lost."""
    progress: Callable[[], tuple[str, int] | None] = lambda: None
    """A role whose code runs in this process, and what changes whenever it goes on; None if none does now."""
    check_roles: Callable[[Sequence[str]], None] = lambda names: None
    """Raises ConfigError if the launcher's settings name a role that is not among these, all roles of the run."""


def fault_of(error: Exception) -> type[HeadraceError] | None:
    """Which of FAULTS an error is; None for one that a restart may help."""
    return next((kind for kind in FAULTS if isinstance(error, kind)), None)


def run_role(role: Role, endpoint: Endpoint, stop: Stop) -> None:
    """Runs a role until `stop` is set or the server is gone; raises what the role raises."""
    with RoleContext(endpoint, stop) as context:
        role.run(context)
