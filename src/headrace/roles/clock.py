"""Where a role's time goes."""

from collections.abc import Sequence
from time import perf_counter

__all__ = ["PhaseClock", "Stillness"]


class PhaseClock:
    """Adds up the seconds between enter() calls under the phase entered.

    One thread enters; another may read `phase`, `entered` and `seconds`, each of which is replaced whole.
    """

    def __init__(self, phases: Sequence[str]) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)
        self.phase = phases[-1]
        self.entered = perf_counter()
        self.beats = 0

    @property
    def place(self) -> tuple[str, float, int]:
        """Changes with every sign of progress: who sees the same place for long sees a role that hangs."""
        return self.phase, self.entered, self.beats

    def skip(self, seconds: float) -> None:
        """Leaves so many seconds of the present phase out of the count."""
        self.entered += seconds

    def beat(self) -> None:
        """A sign of progress within a phase."""
        self.beats += 1

    def enter(self, phase: str) -> None:
        """Ends the present phase and begins another."""
        now = perf_counter()
        self.seconds[self.phase] += now - self.entered
        self.phase = phase
        self.entered = now


class Stillness:
    """How long a clock has been seen in one place. One thread, another than the clock's."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self._place = clock.place
        self._since = perf_counter()

    def seconds(self) -> float:
        """Seconds since the clock was first seen where it is now."""
        now, place = perf_counter(), self._clock.place
        if place != self._place:
            self._place, self._since = place, now
        return now - self._since
