"""The gate: tells workers to continue, to pause or to end."""

import json
from collections.abc import Callable
from statistics import fmean
from typing import Literal, NamedTuple

from headrace.clock import monotonic, sleep
from headrace.roles.base import GATE, HELD, Stop
from headrace.servers.base import RoleServer, RunServer

__all__ = ["Gate", "GateKeeper", "GateWatch", "Held", "State"]

State = Literal["open", "held", "closed"]

_POLL_SECONDS = 0.02
"""Between two polls: on a busy machine, one small request takes as long as a turn.

The same for a worker that is held: with short turns it works, on average, as long after the gate is closed as it waits
once it is open. `GateKeeper.move()` returns what it works longer than that.
"""
_HOLD_SECONDS = 2.0
"""Maximum wait for a worker's turn to end; a worker with a longer turn pauses a little after the others."""
_HOLD_POLL_SECONDS = 0.002


class Gate(NamedTuple):
    """What workers read between turns."""

    state: State
    steps: int
    """Environment steps of all workers so far, so that a worker that starts late explores accordingly."""

    def to_json(self) -> bytes:
        """The gate as JSON."""
        return json.dumps(self).encode()

    @staticmethod
    def from_json(text: bytes) -> "Gate":
        """Reads what to_json() wrote."""
        return Gate(*json.loads(text))


class Held(NamedTuple):
    """A worker's confirmation that it is paused."""

    worker: int
    version: int
    """Version of the gate at which it is paused."""

    def to_json(self) -> bytes:
        """The confirmation as JSON."""
        return json.dumps(self).encode()

    @staticmethod
    def from_json(text: bytes) -> "Held":
        """Reads what to_json() wrote."""
        return Held(*json.loads(text))


class GateKeeper:
    """Moves the gate, and waits for the workers to stop at it. One thread, of the training process."""

    def __init__(self, server: RunServer) -> None:
        self.late_turns = 0
        """Turns that exceeded the maximum wait."""
        self._server = server
        self._owed = 0.0  # what they worked less than they will wait, which is 0 or less: no clock goes back
        self._expected: set[int] = set()  # workers that have reported since they last missed a hold
        server.drain(HELD)  # confirmations of an earlier start
        last = server.fetch(GATE)
        self._version = last[0] if last else 0  # continues from an earlier start's version
        self._state: State = "open"

    def expect(self, worker: int) -> None:
        """Waits for this worker from now on."""
        self._expected.add(worker)

    def publish(self, steps: int) -> None:
        """Publishes the gate with the environment steps of all workers."""
        self._version += 1
        self._server.publish(GATE, Gate(self._state, steps).to_json(), self._version)

    def move(self, state: State, steps: int) -> float:
        """Opens, holds or closes the gate; waits until all workers have stopped at one that is not open.

        Returns the mean seconds that they worked on, less those that they wait at a poll once it is open again. A
        worker stops after a complete turn. Silence does not mean that it is dead: its environment, the link or the
        server may be slow. One that misses the deadline is not awaited again before its next report.
        """
        self._state = state
        self.publish(steps)
        if state == "open":
            return 0.0
        awaited, worked = set(self._expected), []
        begin = monotonic()
        while awaited and monotonic() < begin + _HOLD_SECONDS:
            confirmations = [Held.from_json(message) for message in self._server.drain(HELD)]
            stopped = awaited & {each.worker for each in confirmations if each.version >= self._version}
            worked += [monotonic() - begin] * len(stopped)
            awaited -= stopped
            sleep(_HOLD_POLL_SECONDS)
        self._expected -= awaited
        self.late_turns += len(awaited)
        if not worked:
            return 0.0
        worked_on = fmean(worked) - (_POLL_SECONDS + _HOLD_POLL_SECONDS) / 2 + self._owed
        self._owed = min(0.0, worked_on)
        return max(0.0, worked_on)


class GateWatch:
    """Polls the gate for one worker. One thread."""

    def __init__(self, server: RoleServer, index: int, stop: Stop) -> None:
        self.steps = 0
        """The steps in the gate as last read."""
        self._server = server
        self._index = index
        self._stop = stop
        self._version = 0
        self._state: State = "held"
        self._next_look = 0.0

    def wait(self, beat: Callable[[], object] = lambda: None) -> float | None:
        """Returns the seconds that the gate held the worker, 0 if it is open; None if the worker must end.

        Calls `beat` at each poll of a gate that is not open.
        """
        begin = monotonic()
        if begin < self._next_look and not self._stop.is_set():
            return 0.0
        waited = 0.0
        while not self._stop.is_set():
            found = self._server.fetch(GATE, self._version)
            if found is not None:
                self._version, (self._state, self.steps) = found[0], Gate.from_json(found[1])
                if self._state == "held":
                    self._confirm()
            if self._state == "open":
                self._next_look = monotonic() + _POLL_SECONDS
                return waited
            if self._state == "closed":
                return None
            beat()
            self._stop.wait(_POLL_SECONDS)
            waited = monotonic() - begin
        return None

    def confirm_end(self) -> None:
        """Confirms a closed gate; called when the worker has sent its last report."""
        if self._state == "closed":
            self._confirm()

    def _confirm(self) -> None:
        self._server.put(HELD, Held(self._index, self._version).to_json())
