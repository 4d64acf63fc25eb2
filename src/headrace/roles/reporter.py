"""Sends an actor's counts and timings to the training process, from a thread and a connection of its own.

A thread of its own, so that reports go on while the actor waits for the rate limiter, and so that an environment
that hangs is seen: the report says for how long the actor has not moved. Whoever looks after the actor ends it then;
an actor that nobody looks after ends itself.
"""

import contextlib
import json
import os
import sys
import threading

from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles.actor import ActorSettings
from headrace.roles.base import REPORTS, Role
from headrace.roles.clock import PhaseClock, Stillness
from headrace.servers.base import RoleServer

__all__ = ["ActorReporter", "end_process"]

_PERIOD_SECONDS = 0.1


class ActorReporter:
    """Counts are added by the actor's thread (`count`), sent by this object's; each report holds what is new.

    The process ends once a step of the environment takes longer than `hang_seconds`; None leaves that to others.
    """

    def __init__(
        self,
        server: RoleServer,
        role: Role,
        settings: ActorSettings,
        clock: PhaseClock,
        hang_seconds: float | None = None,
    ) -> None:
        self._server = server
        self._role = role
        self._settings = settings
        self._clock = clock
        self._hang_seconds = hang_seconds
        self._still = Stillness(clock)
        self._sent = dict.fromkeys(clock.seconds, 0.0)
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
                still = self._still.seconds()
                self._send(still)
                if self._hang_seconds and self._clock.phase == "environment" and still > self._hang_seconds:
                    end_process(
                        f"the environment has not returned for {still:.0f} s; {self._hang_seconds:.0f} s are allowed"
                    )
            self._send(self._still.seconds())

    def _send(self, still_seconds: float) -> None:
        with self._lock:
            steps, episodes = self._steps, self._episodes
            self._steps, self._episodes = 0, []
        epsilon, first = self._settings.epsilon, self._settings.first_environment
        seconds = dict(self._clock.seconds)
        record = {
            "role": "actor",
            "index": self._role.index,
            "generation": self._role.generation,
            "steps": steps,
            "episodes": [
                [episode.return_, episode.length, epsilon[episode.environment - first]] for episode in episodes
            ],
            "seconds": {phase: spent - self._sent[phase] for phase, spent in seconds.items()},
            "phase": self._clock.phase,
            "still_seconds": still_seconds,
        }
        self._sent = seconds
        self._server.put(REPORTS, json.dumps(record).encode())


def end_process(reason: str) -> None:
    """Ends this process, whatever its other threads do: what hangs in native code can't be interrupted."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(1)
