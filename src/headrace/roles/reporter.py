"""Sends an actor's counts and timings to the training process, from a thread and a connection of its own.

A thread of its own, so that reports go on while the actor waits for the rate limiter, and so that an environment
that hangs is seen: the report says how long the actor has been in its present phase.
"""

import contextlib
import json
import threading
from time import perf_counter

from headrace.algorithms.dqn.exploration import EpsilonGreedy
from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles.base import REPORTS, RoleServer
from headrace.roles.clock import PhaseClock

__all__ = ["ActorReporter"]

_PERIOD_SECONDS = 0.25


class ActorReporter:
    """Counts are added by the actor's thread (`count`), sent by this object's."""

    def __init__(self, server: RoleServer, index: int, clock: PhaseClock, exploration: EpsilonGreedy) -> None:
        self._server = server
        self._index = index
        self._clock = clock
        self._epsilon = exploration.epsilon
        self._lock = threading.Lock()  # guards _steps, _episodes, _version
        self._steps = 0
        self._episodes: list[Episode] = []
        self._version = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reporter-{index}", daemon=True)

    def start(self, first_environment: int) -> None:
        """Begins to report; `first_environment` turns an episode's environment number into its epsilon."""
        self._first_environment = first_environment
        self._thread.start()

    def count(self, steps: int, episodes: list[Episode], version: int) -> None:
        """Adds environment steps and finished episodes, made under this policy version."""
        with self._lock:
            self._steps += steps
            self._episodes += episodes
            self._version = version

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
            steps, episodes, version = self._steps, self._episodes, self._version
            self._steps, self._episodes = 0, []
        record = {
            "role": "actor",
            "index": self._index,
            "steps": steps,
            "episodes": [
                [episode.return_, episode.length, self._epsilon[episode.environment - self._first_environment]]
                for episode in episodes
            ],
            "version": version,
            "seconds": self._clock.seconds,
            "phase": self._clock.phase,
            "phase_seconds": perf_counter() - self._clock.entered,
        }
        self._server.put(REPORTS, json.dumps(record).encode())
