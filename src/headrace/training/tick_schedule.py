"""When the training loop does what is due by wall clock, and which part of a long turn is not training time."""

from headrace.clock import monotonic
from headrace.roles.clock import OUTAGE_SECONDS
from headrace.training.interrupts import Interrupts
from headrace.training.progress_records import ProgressRecords
from headrace.training.reports import Reports
from headrace.training.session import Session
from headrace.training.supervision import Supervisor

__all__ = ["TickSchedule"]


class TickSchedule:
    """The time of the next tick. Until it comes, the loop only updates; a loop that comes much later has stalled.

    A server that is stopped, or behind a network that is down for a while, stalls it without losing a connection, and
    so does Ctrl-Z.
    """

    def __init__(
        self,
        session: Session,
        supervisor: Supervisor,
        reports: Reports,
        records: ProgressRecords,
        interrupts: Interrupts,
    ) -> None:
        self._session = session
        self._supervisor = supervisor
        self._reports = reports
        self._records = records
        self._interrupts = interrupts
        self._next = monotonic()
        self._outages, self._waited_seconds = self._count_outages(), 0.0

    @property
    def due(self) -> bool:
        """Whether the time of the next tick has come."""
        return monotonic() >= self._next

    def follow(self, seconds: float = 0.0) -> None:
        """Sets the next tick: so many seconds from now."""
        self._next = monotonic() + seconds

    def skip_gap(self, *, server_lost: bool = False) -> None:
        """Does not count a long turn as time without heartbeats, nor its stops and waits for the server as training."""
        now = monotonic()
        gap = now - self._next
        outages, self._outages = self._outages, self._count_outages()
        waited, self._waited_seconds = self._waited_seconds, self._waits()
        lost = gap if server_lost or self._outages != outages else self._waited_seconds - waited
        if gap > OUTAGE_SECONDS:
            self._next = now
            self._supervisor.skip(gap)
        if lost > OUTAGE_SECONDS and not self._session.clock.paused:
            self._session.clock.skip(lost)
            self._session.skip(lost)
            self._records.look(paused=True)

    def _count_outages(self) -> tuple[int, int]:
        return self._session.server.outages(), self._interrupts.stops

    def _waits(self) -> float:
        """Seconds in which this thread has waited for the server so far."""
        return self._session.program.waited_seconds + self._reports.waited_seconds + self._records.waited_seconds
