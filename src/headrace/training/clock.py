"""The training clock."""

from headrace.clock import monotonic

__all__ = ["TrainingClock"]


class TrainingClock:
    """Seconds of training, excluding evaluations that pause it and time in which the server was unavailable.

    `seconds` and `total_seconds` are those of earlier starts of the run.
    """

    def __init__(self, seconds: float = 0.0, total_seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = monotonic()
        self._started = self._since - total_seconds
        self._paused_at = 0.0

    @property
    def seconds(self) -> float:
        """Training seconds so far."""
        return self._before + (monotonic() - self._since if self._since is not None else 0.0)

    @property
    def total_seconds(self) -> float:
        """Seconds so far, including those that are not training."""
        return monotonic() - self._started

    @property
    def paused(self) -> bool:
        """Whether the clock is paused."""
        return self._since is None

    @property
    def paused_seconds(self) -> float:
        """Seconds for which the clock has been paused now, without those that count() added."""
        assert self._since is None
        return monotonic() - self._paused_at

    def skip(self, seconds: float) -> None:
        """Subtracts seconds that have just passed and were not training; the clock must not be paused."""
        assert self._since is not None
        self._since += seconds

    def pause(self) -> None:
        """Pauses the clock."""
        self._before, self._since, self._paused_at = self.seconds, None, monotonic()

    def count(self, seconds: float) -> None:
        """Adds seconds that were training since the clock was paused."""
        assert self._since is None
        self._before += seconds
        self._paused_at += seconds

    def resume(self) -> float:
        """Resumes the clock; returns the seconds for which it was paused."""
        seconds = self.paused_seconds
        self._since = monotonic()
        return seconds
