"""When a role that keeps dying is no longer started again."""

import time
from collections import deque

from headrace.errors import LaunchError
from headrace.launch.base import Exit

__all__ = ["DEATHS", "DEATHS_SECONDS", "Deaths", "given_up"]

DEATHS = 3
DEATHS_SECONDS = 60.0


class Deaths:
    """How often one role has died of late. One thread."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=DEATHS)
        self._hung_seconds = 0.0

    def add(self, hung_seconds: float = 0.0) -> bool:
        """One death more, after so long a hang; whether the role may be started again."""
        self._hung_seconds += hung_seconds
        self._times.append(time.monotonic() - self._hung_seconds)  # hanging takes longer than that minute
        return len(self._times) < DEATHS or self._times[-1] - self._times[0] > DEATHS_SECONDS


def given_up(ended: Exit) -> LaunchError:
    """The error that a role's last death is."""
    return LaunchError(
        f"{ended.role.name} died {DEATHS} times within a minute; its last end: {ended.reason}: {ended.message}"
    )
