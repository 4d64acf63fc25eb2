"""Where a role's time goes."""

from collections.abc import Sequence
from time import perf_counter

__all__ = ["PhaseClock"]


class PhaseClock:
    """Adds up the seconds between enter() calls under the phase entered.

    One thread enters; another may read `phase`, `entered` and `seconds`, each of which is replaced whole.
    """

    def __init__(self, phases: Sequence[str]) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)
        self.phase = phases[-1]
        self.entered = perf_counter()

    def enter(self, phase: str) -> None:
        """Ends the present phase and begins another."""
        now = perf_counter()
        self.seconds[self.phase] += now - self.entered
        self.phase = phase
        self.entered = now
