"""An actor started separately from its run: it gets all its settings from the server."""

import dataclasses
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import ConfigError
from headrace.fields import read_json, write_json
from headrace.roles.base import RUN, Role, RoleContext, Stop
from headrace.roles.remote_actor import ActorRole, claim_slot
from headrace.servers import Endpoint, RoleServer

__all__ = ["RunNotice", "SeparateActorRole", "await_notice"]

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
"""After this long without a learner, a line says what the actor is waiting for."""
_SPARE_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class RunNotice:
    """What a learner tells separately started actors; published under RUN as JSON."""

    environment: str
    hang_seconds: float
    start: str
    """Identifies one start of the learner. Actors end when the learner starts again."""
    actors: tuple[ActorRole, ...]
    """The actors of the run; empty if the learner starts them itself."""

    def to_json(self) -> str:
        """The notice as JSON."""
        return write_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "RunNotice":
        """Reads what to_json() wrote; raises ConfigError with the field's name if the text is something else."""
        return read_json(RunNotice, text, "a run's notice, of a learner of the same version,")


def await_notice(server: RoleServer, stop: Callable[[], bool], say: Callable[[str], object]) -> RunNotice | None:
    """Waits for the run's learner, and says so if it takes long; returns None if asked to stop."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not stop():
        found = server.fetch(RUN)
        if found is not None and found[1]:
            return RunNotice.from_json(found[1])
        if time.monotonic() >= patience:
            patience = float("inf")
            say("this run has no learner yet; waiting for it")
        time.sleep(_POLL_SECONDS)
    return None


@dataclass(frozen=True)
class SeparateActorRole(Role):
    """Acts in the first free slot of the run, and waits for one if necessary.

    Ends with the run. Raises ConfigError if the run has no slots for actors. An environment that hangs ends the
    process.
    """

    kind: ClassVar[str] = "separate-actor"

    relay: Endpoint | None = None
    """Server on this host that passes on the run's policies; None if the actor polls the run's server itself."""

    def run(self, context: RoleContext) -> None:
        """Waits for the run's learner, claims a slot, and is its actor."""
        server = context.connect()
        notice = await_notice(server, context.stop.is_set, _say)
        if notice is None:
            return
        if not notice.actors:
            raise ConfigError(
                "the run's learner starts its own actors; headrace learner trains with separately started ones"
            )
        actor = notice.actors[_await_slot(server, len(notice.actors), context.stop)]
        dataclasses.replace(
            actor,
            relay=self.relay,
            generation=secrets.randbits(31),  # differs from every predecessor's, so that no episodes are repeated
        ).act(server, context, notice.hang_seconds)


def _await_slot(server: RoleServer, slots: int, stop: Stop) -> int:
    """Waits while all slots are taken, so that a spare actor replaces one that leaves."""
    slot = claim_slot(server, range(slots), stop)
    if slot is None:
        _say(f"all {slots} actor slots of the run are taken; waiting for a free one")
    while slot is None:
        stop.wait(_SPARE_POLL_SECONDS)
        slot = claim_slot(server, range(slots), stop, 0.0)
    return slot


def _say(text: str) -> None:
    print(text, flush=True)
