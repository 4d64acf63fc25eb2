"""Records and shows a run's progress about once a second."""

import contextlib

from headrace.clock import monotonic
from headrace.errors import ReplayError, ServerError
from headrace.machine import available_cores
from headrace.training.core_use import CoreUse
from headrace.training.run_publisher import RunPublisher
from headrace.training.session import Session

__all__ = ["ProgressRecords"]

_PERIOD_SECONDS = 1.0


class ProgressRecords:
    """Counts, rates, gradients of workers and busy cores. One thread."""

    def __init__(self, session: Session, publisher: RunPublisher) -> None:
        self._session = session
        self._publisher = publisher
        self._next = monotonic() + _PERIOD_SECONDS
        self._recorded_seconds = session.clock.seconds
        self._core_use = CoreUse()
        self.stats = session.program.table.stats()
        """The table's last known statistics."""
        self.waited_seconds = 0.0
        """Seconds in which write() has waited for the server."""

    def write_when_due(self) -> None:
        """Writes about once a second, or a second after a write that took longer."""
        now = monotonic()
        if now >= self._next:
            self.write()
            written = monotonic()
            self._next = (now if written < now + _PERIOD_SECONDS else written) + _PERIOD_SECONDS

    def write(self) -> None:
        """Shows the progress; records it unless the clock has stood still since the last record."""
        session = self._session
        if not self._publisher.ended:
            begin = monotonic()
            self.stats = session.program.table.stats()
            self.waited_seconds += monotonic() - begin
        progress = session.monitor.snapshot(session.clock.seconds, session.learner, self.stats, session.evaluations)
        session.display.update(progress)
        if progress.seconds <= self._recorded_seconds:  # the clock is paused while an evaluation holds training
            return
        self._recorded_seconds = progress.seconds
        session.run.append(progress.to_record())
        moment = {"seconds": progress.seconds, "environment_steps": progress.environment_steps}
        figures = session.program.figures()
        if figures is not None:
            session.record("workers", **moment, **figures)
        if busy := self._core_use.take_recent():
            session.record("cores", **moment, cores=available_cores(), busy=busy)

    def look(self, *, paused: bool) -> None:
        """Counts busy cores; see `CoreUse`."""
        self._core_use.look(paused=paused)

    def busy_cores(self) -> dict[str, float]:
        """Busy cores so far, by kind of process; empty in a run that is not simulated."""
        return self._core_use.mean()

    def finish(self) -> None:
        """Reads the table's statistics once more, after the actors have ended."""
        with contextlib.suppress(ReplayError, ServerError):  # if the server is gone, the last known values suffice
            self.stats = self._session.program.table.stats()
