"""The training clock."""

from time import perf_counter

__all__ = ["TrainingClock"]


class TrainingClock:
    """Seconds of training, without evaluations that hold it and without time in which the server was away."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = perf_counter()
        self._paused_at = 0.0

    @property
    def seconds(self) -> float:
        """Training seconds so far."""
        return self._before + (perf_counter() - self._since if self._since is not None else 0.0)

    @property
    def paused(self) -> bool:
        """Whether the clock stands still."""
        return self._since is None

    def skip(self, seconds: float) -> None:
        """Takes off seconds that have just passed and were not training; it must not be paused."""
        assert self._since is not None
        self._since += seconds

    def pause(self) -> None:
        """Stops the clock."""
        self._before, self._since, self._paused_at = self.seconds, None, perf_counter()

    def resume(self) -> float:
        """Lets the clock go on; the seconds that it stood still."""
        self._since = perf_counter()
        return self._since - self._paused_at
