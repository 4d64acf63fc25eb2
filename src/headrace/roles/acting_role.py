"""Roles that act, each in a slot of its run: actors and workers, on the learner's machine or started separately."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.clock import monotonic, random_bits
from headrace.errors import ClosedError, ServerError
from headrace.roles.base import Role, RoleContext, Stop
from headrace.servers import RoleServer

__all__ = ["ActingRole", "claim_slot"]

_CLAIM_POLL_SECONDS = 0.1
_CLAIM_SECONDS = 5.0
"""How long a predecessor's connection may take to close."""
_LOST_SECONDS = 75.0
"""The same if the predecessor's machine is gone: the server ends a connection 60 s after it last heard of its peer."""


@dataclass(frozen=True)
class ActingRole(Role):
    """An actor or a worker; `index` is its slot."""

    @property
    def elastic(self) -> bool:
        """True: the others act too."""
        return True

    def run(self, context: RoleContext) -> None:
        """Acts; raises ServerError if another process acts in its slot of a shared server's run."""
        server = context.connect()
        own, stop = [self.index], context.stop
        if context.endpoint.run and claim_slot(server, self.kind, own, stop, _LOST_SECONDS) is None:
            raise ServerError(f"{self.name} of run {context.endpoint.run} is already acting in another process")
        self.act(server, context)

    @abstractmethod
    def act(self, server: RoleServer, context: RoleContext, hang_seconds: float | None = None) -> None:
        """Acts until stopped in a slot that is claimed on `server`, a connection for this role alone.

        `hang_seconds` is None if another process watches for an environment that hangs.
        """


def claim_slot(
    server: RoleServer, kind: str, slots: Iterable[int], stop: Stop, timeout_seconds: float | None = None
) -> int | None:
    """Claims the first free slot of `slots`, the numbers of a run's roles of this kind.

    Waits for one until the timeout, by default 5 s; returns None if all stay taken.
    """
    slots = list(slots)
    owner = random_bits(63)
    deadline = monotonic() + (_CLAIM_SECONDS if timeout_seconds is None else timeout_seconds)
    while not stop.is_set():
        for slot in slots:
            try:
                server.claim(f"{kind}/{slot}", owner)
            except ClosedError:
                raise
            except ServerError:
                continue
            return slot
        if monotonic() >= deadline:
            return None
        stop.wait(_CLAIM_POLL_SECONDS)
    raise ClosedError("asked to stop")
