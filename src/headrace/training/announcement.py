"""What a run has on its server for its roles."""

from headrace.errors import ClosedError, ReplayError
from headrace.roles.base import RUN
from headrace.roles.volunteer import RunNotice
from headrace.servers import RunServer
from headrace.topologies.base import Program
from headrace.training.evaluation import Evaluations

__all__ = ["Announcement"]


class Announcement:
    """Policy, notice and evaluation request, and whether actors may go on: published, and again where they got lost.

    One thread.
    """

    def __init__(self, server: RunServer, program: Program, evaluations: Evaluations, notice: RunNotice) -> None:
        self._server = server
        self._program = program
        self._evaluations = evaluations
        self._notice = notice
        self.ended = False

    def publish(self) -> None:
        """Tells roles, wherever they are, what they begin with."""
        self._program.learner.publish()
        self._server.publish(RUN, self._notice.to_json().encode())

    def renew(self, *, paused: bool) -> bool:
        """Publishes again where the server was started anew since the last call; whether it was.

        `paused` is whether the actors are held.
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
        """Ends the actors, wherever they are: who waits to push is let go. A second call does nothing."""
        if not self.ended:
            self.ended = True
            self._close()

    def _close(self) -> None:
        self._server.publish(RUN, b"")
        try:
            self._program.table.close()
        except ClosedError:
            raise
        except ReplayError:
            pass  # a server that was started anew has no table for anyone to wait at
