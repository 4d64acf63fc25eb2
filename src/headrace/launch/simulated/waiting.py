"""Events, locks, conditions and executors of a simulated run."""

from collections import deque
from collections.abc import Callable
from typing import Any, Self

from headrace.clock import Condition, Event, Executor, Outcome
from headrace.launch.simulated.world import Killed, SimulatedWorld, Task

__all__ = ["SimulatedCondition", "SimulatedEvent", "SimulatedExecutor", "SimulatedLock"]


class SimulatedEvent(Event):
    """As `threading.Event`."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Sets it, which ends all waits."""
        self._set = True
        for waiter in list(self._waiters):
            self._world.wake(waiter)

    def clear(self) -> None:
        """Undoes set()."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set; returns False at the deadline."""
        if not self._set and (timeout is None or timeout > 0):
            self._world.park(self._waiters, timeout)
        return self._set


class SimulatedLock:
    """A lock, to be used as a context."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._owner: Task | None = None
        self._waiters: list[Task] = []

    def __enter__(self) -> bool:
        try:
            while self._owner is not None:
                self._world.park(self._waiters, None)
        except BaseException:
            self._pass_on()  # it may have been woken to take the lock
            raise
        self._owner = self._world.running
        return True

    def __exit__(self, *error: object) -> None:
        if self._owner is self._world.running:  # a thread that was killed while it waited does not have it
            self._owner = None
            self._pass_on()

    def _pass_on(self) -> None:
        """Wakes a waiting thread if the lock is free."""
        if self._owner is None and self._waiters:
            self._world.wake(self._waiters.pop(0))


class SimulatedCondition(SimulatedLock, Condition):
    """As `threading.Condition`."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        self._sleepers: list[Task] = []

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:
        """Waits until the predicate holds or until the deadline; returns its last value."""
        deadline = None if timeout is None else self._world.monotonic() + timeout
        while not (result := predicate()):
            left = None if deadline is None else deadline - self._world.monotonic()
            if left is not None and left <= 0:
                break
            self._wait(left)
        return result

    def notify(self) -> None:
        """Wakes one waiting thread."""
        if self._sleepers:
            self._world.wake(self._sleepers.pop(0))

    def notify_all(self) -> None:
        """Wakes all waiting threads."""
        sleepers, self._sleepers[:] = list(self._sleepers), []
        for sleeper in sleepers:
            self._world.wake(sleeper)

    def _wait(self, timeout: float | None) -> None:
        self.__exit__()
        try:
            self._world.park(self._sleepers, timeout)
        except Killed:
            raise
        except BaseException:
            self.__enter__()
            raise
        self.__enter__()


class _Call(Outcome[Any]):
    """A call of an executor."""

    def __init__(self, world: SimulatedWorld, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments
        self._ended = world.new_event()
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._ended.is_set()

    def result(self) -> Any:
        """Waits for the end; returns or raises what the function did."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def run(self) -> None:
        """Calls the function."""
        try:
            self._value = self._function(*self._arguments)
        except Exception as error:
            self._error = error
        self._ended.set()


class SimulatedExecutor(Executor):
    """One thread that calls functions in order."""

    def __init__(self, world: SimulatedWorld, name: str) -> None:
        self._world = world
        self._name = name
        self._changed = SimulatedCondition(world)
        self._calls: deque[_Call] = deque()
        self._closed = False
        self._thread: Task | None = None

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> _Call:
        """Calls the function after all earlier ones."""
        call = _Call(self._world, function, arguments)
        with self._changed:
            self._calls.append(call)
            self._changed.notify()
        if self._thread is None:
            self._thread = self._world.start_thread(self._run, self._name)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the thread after the calls so far; with `cancel_futures`, after the one that has begun."""
        with self._changed:
            self._closed = True
            if cancel_futures:
                self._calls.clear()
            self._changed.notify_all()
        if wait and self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls or self._closed)
                if not self._calls:
                    return
                call = self._calls.popleft()
            call.run()
