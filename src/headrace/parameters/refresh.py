"""Newer policies for an acting thread: polls are scheduled in its loop; a second thread fetches and loads."""

from collections.abc import Callable
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from headrace.clock import monotonic, new_condition, spend, start_thread
from headrace.parameters.base import ParameterStore
from headrace.parameters.policy import Policy
from headrace.parameters.snapshot import Stamp
from headrace.types import Array

__all__ = ["PullSchedule", "PullUnit", "Refresh", "RefreshFigures"]

_CLOSE_SECONDS = 5.0
_VERSIONS_PERIOD_SECONDS = 0.01
"""Interval of polls with a pull period in versions."""

Decode = Callable[[bytes], bytes]
PullUnit = Literal["steps", "seconds", "versions"]
"""Unit of a pull period."""


class RefreshFigures(TypedDict):
    """Policies that an actor has installed since its process started, as JSON."""

    count: int
    seconds: dict[str, float]
    """Seconds of the thread that fetches them, by part of its work."""
    latency_seconds: float | None
    """From the learner's parameters to the last installation; None before it, or if the learner is on another host."""


class PullSchedule:
    """When an actor polls for a newer policy, and how much newer it must be. One thread; `now` returns seconds."""

    def __init__(
        self,
        period: float,
        unit: PullUnit,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.behind = int(period) if unit == "versions" else 1
        """Minimum number of versions by which a policy must be newer."""
        self._steps = period if unit == "steps" else 0.0
        self._seconds = {"steps": 0.0, "seconds": period, "versions": _VERSIONS_PERIOD_SECONDS}[unit]
        self._now = now
        self._since_steps = 0
        self._since = now()

    def due(self, steps: int) -> bool:
        """Whether to poll now, `steps` environment steps after the last call: once a period after the last poll."""
        if self._steps:
            self._since_steps += steps
            if self._since_steps < self._steps:
                return False
            self._since_steps = 0
            return True
        now = self._now()
        if now - self._since < self._seconds:
            return False
        self._since = now
        return True


class Refresh:
    """The current policy, and a thread that fetches the next one and creates its session in the background.

    The acting thread decides when to poll, and installs a policy that is ready between two of its steps; it waits
    neither for the server nor for a session. The background thread polls `store`, its own connection, for `news`. These
    are published after the policy with the same version, so a poll without a result transfers no policy. Then it
    fetches `name`, which `decode` converts to a policy's graph.
    """

    def __init__(self, store: ParameterStore, name: str, news: str, decode: Decode, policy: Policy) -> None:
        self.seconds = dict.fromkeys(("fetch", "deserialize", "load"), 0.0)
        """Seconds that the thread has spent on each part, over all polls; only the thread updates it."""
        self.count = 0
        """Number of installed policies."""
        self.latency_seconds: float | None = None
        """Time from the learner's parameters to the last installation; None before it, or if the learner is on another
        host."""
        self._store = store
        self._name = name
        self._news = news
        self._decode = decode
        self._policy = policy
        self._changed = new_condition()  # guards all fields below
        self._busy = False  # True from a poll until it found nothing or its policy was installed
        self._behind = 0
        self._next: tuple[Policy, Stamp | None] | None = None
        self._retired: Policy | None = None
        self._error: Exception | None = None
        self._closed = False
        self.ready = False
        """Whether install() has a policy to install or an error to raise."""
        self._thread = start_thread(self._run, "refresh")

    @property
    def version(self) -> int:
        """Version of the current policy."""
        return self._policy.version

    def output(self, observation: Array) -> NDArray[np.float32]:
        """Outputs [B, A] of the current policy for observations [B, *input]."""
        return self._policy.output(observation)

    def advance(
        self, observation: Array, state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Outputs [B, A] and next states [B, S] of the current policy; see `Policy.advance()`."""
        return self._policy.advance(observation, state)

    @property
    def state_size(self) -> int:
        """S, the numbers of an environment's state; 0 if the policy is not recurrent."""
        return self._policy.state_size

    def poll(self, behind: int = 1) -> None:
        """Makes the thread poll for a policy at least `behind` versions newer, unless it is busy; never waits."""
        if not self._busy:
            with self._changed:
                self._busy = True
                self._behind = behind
                self._changed.notify()

    def install(self) -> int:
        """Installs the policy that is ready; returns its version. Raises the thread's error, if any."""
        with self._changed:
            self.ready = self._busy = False
            if self._error is not None:
                raise self._error
            assert self._next is not None
            (policy, stamp), self._next = self._next, None
            self._policy, self._retired = policy, self._policy  # the thread frees the old one, which takes time
            self._changed.notify()
        self.count += 1
        self.latency_seconds = stamp.age_seconds if stamp else None
        return self.version

    def figures(self) -> RefreshFigures:
        """Totals, and the last latency; from any thread."""
        return {"count": self.count, "seconds": dict(self.seconds), "latency_seconds": self.latency_seconds}

    def close(self) -> None:
        """Ends the thread; close its connection first, since the thread may be waiting for it."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        version = self._policy.version
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._behind or self._retired)
                if self._closed:
                    return
                (behind, self._behind), (retired, self._retired) = (self._behind, 0), (self._retired, None)
            del retired
            if not behind:
                continue
            made: tuple[Policy, Stamp | None] | None = None
            error: Exception | None = None
            try:
                made = self._make(version, behind)
            except Exception as raised:
                error = raised
            if made:
                version = made[0].version
            with self._changed:
                self._next, self._error = made, error
                self.ready = self._busy = bool(made or error)  # busy until installed
            made = None

    def _make(self, version: int, behind: int) -> tuple[Policy, Stamp | None] | None:
        """The newest policy, and when the learner had it; None if there is none new enough."""
        begin = monotonic()
        news = self._store.fetch(self._news, version + behind - 1)
        fetched = self._store.fetch(self._name, version) if news else None
        fetched_at = monotonic()
        self.seconds["fetch"] += fetched_at - begin
        if news is None or fetched is None:  # a restarted server may have only one of them
            return None
        graph = self._decode(fetched[1])
        decoded_at = monotonic()
        self.seconds["deserialize"] += decoded_at - fetched_at
        policy = Policy(graph, fetched[0])
        spend("session")
        self.seconds["load"] += monotonic() - decoded_at
        return policy, Stamp.from_json(news[1]) if fetched[0] == news[0] else None
