"""Sends an actor's counts and timings to the training process, from its own thread and connection.

The separate thread keeps reporting while the actor waits for the rate limiter, and it detects an environment that
hangs: the report says how long the actor has made no progress. A supervisor then ends the actor; an actor without a
supervisor ends itself.

Counts and timings are totals of this process, so a lost report does no harm; only the returns are those of new
episodes.
"""

import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from headrace.clock import monotonic, new_event, new_lock, random_bits, start_thread
from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles.actor import ActorSettings
from headrace.roles.base import HANG_STATUS, Role
from headrace.roles.clock import PhaseClock, StallTimer
from headrace.roles.heartbeat import send_report
from headrace.roles.messages import Acted, Figures
from headrace.servers.base import RoleServer

__all__ = ["ActorReporter", "end_process"]

_PERIOD_SECONDS = 0.1
_IDLE_PERIOD_SECONDS = 1.0
"""Interval between reports of an actor whose counts and timings have not changed."""
_CLOSE_SECONDS = 2.0


_Counts = tuple[int, int, dict[str, float]]
"""Steps, episodes, and seconds by phase."""


class ActorReporter:
    """Sends the counts that the actor's thread adds with `count`, and the result of `more`, from its own thread.

    While `more` returns None, its reports are heartbeats without counts. Workers report in the same way, since they act
    too. An error of the thread is raised by the next count(), or at the end of the context: an actor without reports
    would go on unseen. The process ends if a step of the environment takes longer than `hang_seconds`; None leaves this
    check to others.
    """

    def __init__(
        self,
        server: RoleServer,
        role: Role,
        settings: ActorSettings,
        clock: PhaseClock,
        more: Callable[[], Figures | None],
        hang_seconds: float | None = None,
    ) -> None:
        self._server = server
        self._role = role
        self._settings = settings
        self._clock = clock
        self._more = more
        self._hang_seconds = hang_seconds
        self._stall = StallTimer(clock)
        self._writer = f"{random_bits(64):016x}"
        self._sent: _Counts | None = None
        self._sent_at = -_IDLE_PERIOD_SECONDS
        self._lock = new_lock()  # guards _steps, _episodes and _returns
        self._steps = self._episodes = 0
        self._returns: list[tuple[float, int, float]] = []
        self._failure: Exception | None = None
        self._closed, self._ended = new_event(), new_event()
        self._thread = start_thread(self._run, f"reporter-{role.index}")

    def count(self, steps: int, episodes: list[Episode], exploration: Sequence[float] | None = None) -> None:
        """Adds environment steps and finished episodes; `exploration` [E] is by default that of the settings."""
        self._raise_failure()
        scale, first = exploration or self._settings.exploration, self._settings.first_environment
        returns = [(episode.return_, episode.length, scale[episode.environment - first]) for episode in episodes]
        with self._lock:
            self._steps += steps
            self._episodes += len(episodes)
            self._returns += returns

    def close(self) -> None:
        """Sends the remaining counts and ends the thread; a request to stop meanwhile leaves a little time for that."""
        self._closed.set()
        try:
            self._ended.wait()  # join() takes the thread for ended after an interruption (CPython issue 89437)
        except ClosedError:
            self._ended.wait(_CLOSE_SECONDS)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it, and raises the error of the thread unless the actor has raised one."""
        self.close()
        if kind is None:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._closed.wait(_PERIOD_SECONDS):
                stalled = self._stall.seconds()
                if self._counts() != self._sent or monotonic() - self._sent_at >= _IDLE_PERIOD_SECONDS:
                    self._send(stalled)
                if self._hang_seconds and self._clock.phase == "environment" and stalled > self._hang_seconds:
                    end_process(
                        f"the environment has not returned for {stalled:.0f} s; {self._hang_seconds:.0f} s are allowed"
                    )
            self._send(self._stall.seconds())
        except ClosedError:
            pass
        except Exception as error:
            self._failure = error
        finally:
            self._ended.set()

    def _counts(self) -> _Counts:
        """The contents of a report that can change."""
        with self._lock:
            return self._steps, self._episodes, dict(self._clock.seconds)

    def _send(self, stalled_seconds: float) -> None:
        steps, episodes, seconds = self._sent = self._counts()
        self._sent_at = monotonic()
        with self._lock:
            returns, self._returns = self._returns, []
        figures: Figures = {"run_id": self._settings.run_id}
        more = self._more()
        if more is not None:
            acted: Acted = {"steps": steps, "episodes": episodes, "seconds": seconds, "returns": returns}
            figures = {**figures, "writer": self._writer, "acted": acted, **more}
        send_report(self._server, self._role, self._clock.phase, stalled_seconds, figures)


def end_process(reason: str) -> None:
    """Ends this process regardless of its other threads: a call that hangs in native code can't be interrupted."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(HANG_STATUS)
