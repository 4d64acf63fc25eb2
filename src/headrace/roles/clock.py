"""Measures how a role spends its time."""

from collections.abc import Sequence
from time import perf_counter

__all__ = ["PhaseClock", "Stillness"]


class PhaseClock:
    """Accumulates the seconds spent in each phase; enter() switches phases.

    One thread enters phases. Other threads may read `phase`, `entered` and `seconds`, each of which is replaced whole.
    """

    def __init__(self, phases: Sequence[str]) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)
        self.phase = phases[-1]
        self.entered = perf_counter()
        self.beats = 0

    @property
    def place(self) -> tuple[str, float, int]:
        """Changes with every sign of progress; a role hangs if its place has not changed for long."""
        return self.phase, self.entered, self.beats

    def skip(self, seconds: float) -> None:
        """Excludes this many seconds from the current phase."""
        self.entered += seconds

    def beat(self) -> None:
        """Records progress within a phase."""
        self.beats += 1

    def enter(self, phase: str) -> None:
        """Ends the current phase and begins another."""
        now = perf_counter()
        self.seconds[self.phase] += now - self.entered
        self.phase = phase
        self.entered = now


class Stillness:
    """Measures how long a clock has stayed in one place. One thread, not the clock's own."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self._place = clock.place
        self._since = perf_counter()

    def seconds(self) -> float:
        """Seconds since the clock was first observed in its current place."""
        now, place = perf_counter(), self._clock.place
        if place != self._place:
            self._place, self._since = place, now
        return now - self._since
