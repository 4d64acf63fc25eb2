"""An actor or worker that is started separately from its run: it gets all its settings from the server."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from headrace.clock import monotonic, random_bits, sleep
from headrace.errors import require
from headrace.fields import errors_of, read_json, read_object, write_json
from headrace.roles.acting_role import ActingRole, claim_slot
from headrace.roles.base import GENERATIONS_PER_START, RUN, SLOT, Role, RoleContext, Stop
from headrace.roles.handles import PolicyHandle
from headrace.roles.registry import read_role
from headrace.servers import Endpoint, RoleServer
from headrace.types import ActingKind

__all__ = ["RunNotice", "SeparateRole", "await_notice", "read_slot", "slot_name"]

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
"""After this long without a learner, a line says what the role is waiting for."""
_SPARE_POLL_SECONDS = 1.0
_NOTICE = "a run's notice, of a learner of the same version,"


@dataclass(frozen=True)
class RunNotice:
    """What a learner tells separately started roles; published under RUN as JSON."""

    environment: str
    hang_seconds: float
    start: str
    """Identifies one start of the learner. Separately started roles end when the learner starts again."""
    kind: ActingKind
    """Kind of the run's acting roles."""
    slots: int = 0
    """Number of acting roles, each published under slot_name(); 0 if the learner starts them itself."""
    policy: PolicyHandle | None = None
    """The policies that all of them install; None for workers, which share parameters."""

    def to_json(self) -> str:
        """The notice as JSON."""
        return write_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "RunNotice":
        """Reads what to_json() wrote; raises ConfigError with the field's name if the text is something else."""
        return read_json(RunNotice, text, _NOTICE)


def slot_name(slot: int) -> str:
    """Name of the blob with the role of a slot."""
    return f"{SLOT}-{slot}"


def read_slot(text: str | bytes, kind: ActingKind) -> ActingRole:
    """The role of a slot; raises ConfigError like from_json(), also for a role that must run near the learner."""
    with errors_of(_NOTICE):
        role = read_role(read_object(text, "slot"), (kind,))
        assert isinstance(role, ActingRole)
        require("shares_memory", role.shares_memory, not role.shares_memory, "false for a role on any machine")
    return role


def await_notice(server: RoleServer, stop: Callable[[], bool], say: Callable[[str], object]) -> RunNotice | None:
    """Waits for the run's learner, and says so if it takes long; returns None if asked to stop."""
    patience = monotonic() + _PATIENCE_SECONDS
    while not stop():
        found = server.fetch(RUN)
        if found is not None and found[1]:
            return RunNotice.from_json(found[1])
        if monotonic() >= patience:
            patience = float("inf")
            say("this run has no learner yet; waiting for it")
        sleep(_POLL_SECONDS)
    return None


@dataclass(frozen=True)
class SeparateRole(Role):
    """Is the actor or worker of the first free slot of the run, and waits for one if necessary.

    Ends with the run. An environment that hangs ends the process.
    """

    kind: ClassVar[str] = "separate"

    acting: ActingKind
    """Kind of the run's acting roles; part of the name."""
    relay: Endpoint | None = None
    """Server on this host that passes on the run's policies; None if the role polls the run's server itself."""

    @property
    def name(self) -> str:
        """Name for logs and messages, such as "separate-actor 0"."""
        return f"{self.kind}-{self.acting} {self.index}"

    def run(self, context: RoleContext) -> None:
        """Waits for the run's learner, claims a slot, and is its actor or worker."""
        server = context.connect()
        notice = await_notice(server, context.stop.is_set, _say)
        if notice is None:
            return
        slot = _await_slot(server, notice.kind, notice.slots, context.stop)
        found = server.fetch(slot_name(slot))
        if found is None:  # the server was restarted: this process ends, and is started again
            return
        role = read_slot(found[1], notice.kind)
        if self.relay is not None:
            role = role.relayed(self.relay)
        # differs from every predecessor's, so that no episodes are repeated
        generation = role.generation + random_bits(GENERATIONS_PER_START.bit_length() - 1)
        dataclasses.replace(role, generation=generation).act(server, context, notice.hang_seconds)


def _await_slot(server: RoleServer, kind: ActingKind, slots: int, stop: Stop) -> int:
    """Waits while all slots are taken, so that a spare role replaces one that leaves."""
    slot = claim_slot(server, kind, range(slots), stop)
    if slot is None:
        _say(f"all {slots} {kind} slots of the run are taken; waiting for a free one")
    while slot is None:
        stop.wait(_SPARE_POLL_SECONDS)
        slot = claim_slot(server, kind, range(slots), stop, 0.0)
    return slot


def _say(text: str) -> None:
    print(text, flush=True)
