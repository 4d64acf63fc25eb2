"""Decides when a role that keeps dying is no longer restarted."""

from collections import deque

from headrace.clock import monotonic
from headrace.errors import LaunchError
from headrace.launch.base import Exit

__all__ = ["DEATHS", "DEATHS_SECONDS", "Deaths", "too_many_deaths"]

DEATHS = 3
DEATHS_SECONDS = 60.0


class Deaths:
    """Counts the recent deaths of one role. One thread."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=DEATHS)
        self._hung_seconds = 0.0

    def add(self, hung_seconds: float = 0.0) -> bool:
        """Adds a death after a hang or failed start of `hung_seconds`; returns whether the role may be restarted."""
        self._hung_seconds += hung_seconds
        self._times.append(monotonic() - self._hung_seconds)  # hangs do not count: one may exceed the minute
        return len(self._times) < DEATHS or self._times[-1] - self._times[0] > DEATHS_SECONDS


def too_many_deaths(ended: Exit) -> LaunchError:
    """The error to raise after a role's last death."""
    return LaunchError(
        f"{ended.role.name} died {DEATHS} times within a minute; its last end: {ended.reason}: {ended.message}"
    )
