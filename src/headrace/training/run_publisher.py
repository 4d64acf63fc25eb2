"""Publishes what the roles of a run need from its server."""

import json
from collections.abc import Sequence

from headrace.errors import ClosedError, ServerError
from headrace.roles.base import RUN, Role
from headrace.roles.separate_role import RunNotice, slot_name
from headrace.training.session import Session

__all__ = ["RunPublisher"]


class RunPublisher:
    """Publishes policy, notice, slots, evaluation request and whether actors may continue; again after a restart.

    One thread.
    """

    def __init__(self, session: Session, notice: RunNotice, slots: Sequence[Role]) -> None:
        self._server, self._program, self._evaluations = session.server, session.program, session.evaluations
        self._notice = notice
        self._slots = [json.dumps(role.to_record()).encode() for role in slots]
        self.ended = False

    def publish(self) -> None:
        """Publishes what all roles need to start."""
        self._program.learner.publish()
        for number, slot in enumerate(self._slots):
            self._server.publish(slot_name(number), slot)
        self._server.publish(RUN, self._notice.to_json().encode())

    def renew(self, *, paused: bool) -> bool:
        """Publishes again if the server was restarted since the last call; returns whether it was.

        `paused` says whether the actors are held.
        """
        if not self._server.restarted():
            return False
        if self.ended:
            self._close()
        else:
            self._program.table.set_paused(paused)
            self.publish()
        self._evaluations.repeat()
        return True

    def end(self) -> None:
        """Ends all actors, wherever they run, and releases those that wait to push. A second call has no effect."""
        if not self.ended:
            self.ended = True
            self._close()

    def _close(self) -> None:
        self._server.publish(RUN, b"")
        try:
            self._program.table.close()
        except ClosedError:
            raise
        except ServerError:
            pass  # a restarted server has no table on which an actor could wait
