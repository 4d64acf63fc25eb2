"""Sends an actor's counts and timings to the training process, from a thread and a connection of its own.

A thread of its own, so that reports go on while the actor waits for the rate limiter, and so that an environment
that hangs is seen: the report says for how long the actor has not moved.
"""

import contextlib
import json
import threading

from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles.actor import ActorSettings
from headrace.roles.base import REPORTS, Role, RoleServer
from headrace.roles.clock import PhaseClock, Stillness

__all__ = ["ActorReporter"]

_PERIOD_SECONDS = 0.1


class ActorReporter:
    """Counts are added by the actor's thread (`count`), sent by this object's."""

    def __init__(self, server: RoleServer, role: Role, settings: ActorSettings, clock: PhaseClock) -> None:
        self._server = server
        self._role = role
        self._settings = settings
        self._clock = clock
        self._still = Stillness(clock)
        self._lock = threading.Lock()  # guards _steps, _episodes
        self._steps = 0
        self._episodes: list[Episode] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reporter-{role.index}", daemon=True)
        self._thread.start()

    def count(self, steps: int, episodes: list[Episode]) -> None:
        """Adds environment steps and finished episodes."""
        with self._lock:
            self._steps += steps
            self._episodes += episodes

    def close(self) -> None:
        """Sends what is left and ends the thread."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ClosedError):
            while not self._closed.wait(_PERIOD_SECONDS):
                self._send()
            self._send()

    def _send(self) -> None:
        with self._lock:
            steps, episodes = self._steps, self._episodes
            self._steps, self._episodes = 0, []
        epsilon, first = self._settings.epsilon, self._settings.first_environment
        record = {
            "role": "actor",
            "index": self._role.index,
            "generation": self._role.generation,
            "steps": steps,
            "episodes": [
                [episode.return_, episode.length, epsilon[episode.environment - first]] for episode in episodes
            ],
            "seconds": self._clock.seconds,
            "phase": self._clock.phase,
            "still_seconds": self._still.seconds(),
        }
        self._server.put(REPORTS, json.dumps(record).encode())
