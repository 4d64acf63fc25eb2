"""Measures how a role spends its time."""

from collections.abc import Sequence

from headrace.clock import monotonic, spend

__all__ = ["ACTOR_PHASES", "LEARNER_PHASES", "OUTAGE_SECONDS", "PhaseClock", "StallTimer"]

ACTOR_PHASES = ("environment", "inference", "pull", "load", "push", "blocked", "other")
"""How an actor spends its time, in the order of all reports."""
LEARNER_PHASES = ("wait", "transfer", "train", "priorities", "publish", "other")
"""How a learner spends its time."""
OUTAGE_SECONDS = 1.0
"""A longer wait for a server that does not answer is no time of training."""


class PhaseClock:
    """Accumulates the seconds spent in each phase; enter() switches phases.

    In a simulated run, the time of a phase passes at its end: the time that its work costs for `rows` environments.
    One thread enters phases. Other threads may read `phase`, `entered` and `seconds`, whose keys stay the same.
    """

    def __init__(self, phases: Sequence[str], rows: int = 1) -> None:
        self.rows = rows
        self.seconds = dict.fromkeys(phases, 0.0)
        self.phase = phases[-1]
        self.entered = monotonic()
        self.beats = 0

    @property
    def progress(self) -> tuple[str, float, int]:
        """Changes with every sign of progress; a role hangs if this has stayed the same for long."""
        return self.phase, self.entered, self.beats

    def skip(self, seconds: float) -> None:
        """Excludes this many seconds from the current phase, if it has lasted that long: otherwise all of it."""
        self.entered = min(self.entered + seconds, monotonic())

    def restart(self, phase: str) -> None:
        """Begins a phase without counting the time since the last one began."""
        self.phase, self.entered = phase, monotonic()

    def beat(self) -> None:
        """Records progress within a phase."""
        self.beats += 1

    def enter(self, phase: str, work: str = "") -> None:
        """Ends the current phase and begins another; `work` is what was done in it, if not what its name says."""
        spend(work or self.phase, self.rows)
        now = monotonic()
        self.seconds[self.phase] += now - self.entered
        self.phase = phase
        self.entered = now


class StallTimer:
    """Measures how long a clock has shown no progress. One thread, not the clock's own."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self._progress = clock.progress
        self._since = monotonic()

    def seconds(self) -> float:
        """Seconds since progress was last observed."""
        now, progress = monotonic(), self._clock.progress
        if progress != self._progress:
            self._progress, self._since = progress, now
        return now - self._since
