"""How many cores a simulated run keeps busy while it trains."""

from collections.abc import Mapping

from headrace.clock import monotonic, used_core_seconds

__all__ = ["CoreUse"]


class CoreUse:
    """Averages, by kind of process, since the last record and over this start of the run. One thread.

    Time in which the training clock is paused does not count. Both averages are empty in a run that is not simulated.
    """

    def __init__(self) -> None:
        self._at = monotonic()
        self._used: Mapping[str, float] = used_core_seconds()
        self._paused = False
        self._recent, self._total = _Sum(), _Sum()

    def look(self, *, paused: bool) -> None:
        """Counts the time since the last call, unless the training clock is paused now or was then."""
        now, used = monotonic(), used_core_seconds()
        if not (paused or self._paused):
            increments = {kind: seconds - self._used.get(kind, 0.0) for kind, seconds in used.items()}
            for each in (self._recent, self._total):
                each.add(now - self._at, increments)
        self._at, self._used, self._paused = now, used, paused

    def take_recent(self) -> dict[str, float]:
        """Busy cores since the last call."""
        recent, self._recent = self._recent.mean(), _Sum()
        return recent

    def mean(self) -> dict[str, float]:
        """Busy cores so far."""
        return self._total.mean()


class _Sum:
    def __init__(self) -> None:
        self._seconds = 0.0
        self._used: dict[str, float] = {}

    def add(self, seconds: float, used: Mapping[str, float]) -> None:
        self._seconds += seconds
        for kind, more in used.items():
            self._used[kind] = self._used.get(kind, 0.0) + more

    def mean(self) -> dict[str, float]:
        return {kind: used / self._seconds for kind, used in self._used.items()} if self._seconds > 0 else {}
