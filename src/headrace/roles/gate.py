"""Where workers are told to go on, to stand still, or to end."""

import json
import time
from typing import Literal, NamedTuple

from headrace.roles.base import GATE, HELD, Stop
from headrace.servers.base import RoleServer

__all__ = ["Gate", "GateWatch", "Held", "State"]

State = Literal["open", "held", "closed"]

_POLL_SECONDS = 0.005
_LOOK_SECONDS = 0.02
"""Between two looks of a worker that goes on: on a busy machine the answer to a small request takes a turn's time."""


class Gate(NamedTuple):
    """What workers read between turns."""

    state: State
    steps: int
    """Environment steps of all workers so far: how far the exploration of one that starts late has come."""

    def to_json(self) -> bytes:
        """The gate as JSON."""
        return json.dumps(self).encode()

    @staticmethod
    def from_json(text: bytes) -> "Gate":
        """Reads what to_json() wrote."""
        return Gate(*json.loads(text))


class Held(NamedTuple):
    """A worker's word that it stands still."""

    worker: int
    version: int
    """Of the gate that it stands at."""

    def to_json(self) -> bytes:
        """The word as JSON."""
        return json.dumps(self).encode()

    @staticmethod
    def from_json(text: bytes) -> "Held":
        """Reads what to_json() wrote."""
        return Held(*json.loads(text))


class GateWatch:
    """One worker's look at the gate. One thread."""

    def __init__(self, server: RoleServer, index: int, stop: Stop) -> None:
        self.steps = 0
        """Of the gate as it was seen last."""
        self._server = server
        self._index = index
        self._stop = stop
        self._version = 0
        self._state: State = "held"
        self._next_look = 0.0

    def wait(self) -> float | None:
        """The seconds that the gate was held for, 0 where it is open; None once the worker is to end."""
        begin = time.perf_counter()
        if begin < self._next_look and not self._stop.is_set():
            return 0.0
        waited = 0.0
        while not self._stop.is_set():
            found = self._server.fetch(GATE, self._version)
            if found is not None:
                self._version, (self._state, self.steps) = found[0], Gate.from_json(found[1])
                if self._state != "open":
                    self._server.put(HELD, Held(self._index, self._version).to_json())
            if self._state == "open":
                self._next_look = time.perf_counter() + _LOOK_SECONDS
                return waited
            if self._state == "closed":
                return None
            self._stop.wait(_POLL_SECONDS)
            waited = time.perf_counter() - begin
        return None
