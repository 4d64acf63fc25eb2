"""Sends counts and timings of who acts to the training process, from a thread and a connection of its own.

A thread of its own, so that reports go on while the actor waits for the rate limiter, and so that an environment
that hangs is seen: the report says for how long the actor has not moved. Whoever looks after the actor ends it then;
an actor that nobody looks after ends itself.

Counts and timings are totals of this process, so that reports may get lost; only returns are those of new episodes.
"""

import contextlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles.actor import ActorSettings
from headrace.roles.base import REPORTS, Role
from headrace.roles.clock import PhaseClock, Stillness
from headrace.servers.base import RoleServer

__all__ = ["ActorReporter", "end_process"]

_PERIOD_SECONDS = 0.1
_IDLE_PERIOD_SECONDS = 1.0
"""Between reports of an actor of which there is nothing new but that it is there."""


class ActorReporter:
    """Counts are added by the actor's thread (`count`), sent by this object's, with what `more` tells then.

    Workers, who act too, report as actors do. The process ends once a step of the environment takes longer than
    `hang_seconds`; None leaves that to others.
    """

    def __init__(
        self,
        server: RoleServer,
        role: Role,
        settings: ActorSettings,
        clock: PhaseClock,
        more: Callable[[], Mapping[str, Any]],
        hang_seconds: float | None = None,
    ) -> None:
        self._server = server
        self._role = role
        self._settings = settings
        self._clock = clock
        self._more = more
        self._hang_seconds = hang_seconds
        self._still = Stillness(clock)
        self._writer = secrets.token_hex(8)
        self._sent: tuple[object, ...] = ()
        self._sent_at = -_IDLE_PERIOD_SECONDS
        self._lock = threading.Lock()  # guards the three below
        self._steps = self._episodes = 0
        self._new: list[Episode] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reporter-{role.index}", daemon=True)
        self._thread.start()

    def count(self, steps: int, episodes: list[Episode]) -> None:
        """Adds environment steps and finished episodes."""
        with self._lock:
            self._steps += steps
            self._episodes += len(episodes)
            self._new += episodes

    def close(self) -> None:
        """Sends what is left and ends the thread."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ClosedError):
            while not self._closed.wait(_PERIOD_SECONDS):
                still = self._still.seconds()
                if self._counts() != self._sent or time.monotonic() - self._sent_at >= _IDLE_PERIOD_SECONDS:
                    self._send(still)
                if self._hang_seconds and self._clock.phase == "environment" and still > self._hang_seconds:
                    end_process(
                        f"the environment has not returned for {still:.0f} s; {self._hang_seconds:.0f} s are allowed"
                    )
            self._send(self._still.seconds())

    def _counts(self) -> tuple[object, ...]:
        """What a report says beside that the actor is there."""
        with self._lock:
            return self._steps, self._episodes, dict(self._clock.seconds)

    def _send(self, still_seconds: float) -> None:
        self._sent, self._sent_at = self._counts(), time.monotonic()
        steps, episodes, seconds = self._sent
        with self._lock:
            new, self._new = self._new, []
        scale, first = self._settings.exploration, self._settings.first_environment
        record = {
            "role": "worker" if self._role.kind == "worker" else "actor",
            "index": self._role.index,
            "generation": self._role.generation,
            "run_id": self._settings.run_id,
            "writer": self._writer,
            "steps": steps,
            "episodes": episodes,
            "returns": [[episode.return_, episode.length, scale[episode.environment - first]] for episode in new],
            "seconds": seconds,
            "phase": self._clock.phase,
            "still_seconds": still_seconds,
            **self._more(),
        }
        self._server.put(REPORTS, json.dumps(record).encode())


def end_process(reason: str) -> None:
    """Ends this process, whatever its other threads do: what hangs in native code can't be interrupted."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(1)
