"""Time, waiting, threads and random names: the machine's, or those of a simulated run in this thread.

Roles, topologies and the training process take all of these from here, so that a simulated run decides the order of
everything. Each thread is in one `World`, by default the machine's.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar

__all__ = [
    "Condition",
    "Event",
    "Executor",
    "Outcome",
    "Thread",
    "World",
    "inhabit",
    "monotonic",
    "new_condition",
    "new_event",
    "new_executor",
    "new_lock",
    "random_bits",
    "serve",
    "shared_lock",
    "simulated_cores",
    "sleep",
    "spend",
    "start_thread",
    "transfer",
    "used_core_seconds",
]

T_co = TypeVar("T_co", covariant=True)


class Event(Protocol):
    """As `threading.Event`."""

    def is_set(self) -> bool:
        """Whether it is set."""

    def set(self) -> None:
        """Sets it, which ends all waits."""

    def clear(self) -> None:
        """Undoes set()."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set; returns False at the deadline."""


class Condition(Protocol):
    """As `threading.Condition`, but only the thread that is in its context may wait or notify."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:
        """Waits until the predicate holds or until the deadline; returns its last value."""

    def notify(self) -> None:
        """Wakes one waiting thread."""

    def notify_all(self) -> None:
        """Wakes all waiting threads."""


class Thread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, or for the deadline."""

    def is_alive(self) -> bool:
        """Whether it has not ended."""


class Outcome(Protocol[T_co]):
    """What an executor's call returns, as `concurrent.futures.Future`."""

    def done(self) -> bool:
        """Whether the call has ended."""

    def result(self) -> T_co:
        """Waits for the end; returns or raises what the function did."""


class Executor(Protocol):
    """One thread that calls functions in order, as `concurrent.futures.ThreadPoolExecutor(1)`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Outcome[Any]:
        """Calls the function after all earlier ones."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the thread after the calls so far; with `cancel_futures`, after the one that has begun."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> Any: ...


class World:
    """The machine's clock and threads; a simulated run overrides every method."""

    cores: int | None = None
    """Number of simulated cores; None for the machine's own."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def new_event(self) -> Event:
        """An event that is not set."""
        return threading.Event()

    def new_lock(self) -> AbstractContextManager[object]:
        """A lock, to be used as a context."""
        return threading.Lock()

    def new_condition(self) -> Condition:
        """A condition with its own lock."""
        return threading.Condition()

    def new_executor(self, name: str) -> Executor:
        """An executor whose thread has this name."""
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def start_thread(self, target: Callable[[], object], name: str) -> Thread:
        """Starts a daemon thread."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def random_bits(self, bits: int) -> int:
        """A number that no other process draws."""
        return secrets.randbits(bits)

    def spend(self, work: str, count: int = 1) -> None:
        """Lets the time pass that this work takes in a simulated run; without one the work itself takes it."""

    def serve(self, work: str, count: int = 1) -> None:
        """As spend(), for work that the run's server does for this thread."""

    def transfer(self, bytes_up: int, bytes_down: int = 0) -> None:
        """Lets the time pass that messages to a simulated server and back take; those of 0 bytes take none."""

    def shared_lock(self, name: str) -> AbstractContextManager[object] | None:
        """The lock that processes share under this name; None where native code has it."""
        return None

    def used_core_seconds(self) -> Mapping[str, float]:
        """Simulated seconds of work that has ended, by kind of process; empty without a simulated run."""
        return {}


class _Inhabited(threading.local):
    world = World()


_inhabited = _Inhabited()


@contextlib.contextmanager
def inhabit(world: World) -> Iterator[None]:
    """A context in which this thread takes time, waits and threads from `world`."""
    before, _inhabited.world = _inhabited.world, world
    try:
        yield
    finally:
        _inhabited.world = before


def monotonic() -> float:
    """Seconds of a clock that never goes back."""
    return _inhabited.world.monotonic()


def sleep(seconds: float) -> None:
    """Waits."""
    _inhabited.world.sleep(seconds)


def new_event() -> Event:
    """An event that is not set."""
    return _inhabited.world.new_event()


def new_lock() -> AbstractContextManager[object]:
    """A lock, to be used as a context."""
    return _inhabited.world.new_lock()


def new_condition() -> Condition:
    """A condition with its own lock."""
    return _inhabited.world.new_condition()


def new_executor(name: str) -> Executor:
    """One thread that calls functions in order."""
    return _inhabited.world.new_executor(name)


def start_thread(target: Callable[[], object], name: str) -> Thread:
    """Starts a daemon thread, in the same world."""
    return _inhabited.world.start_thread(target, name)


def random_bits(bits: int) -> int:
    """A number that no other process draws."""
    return _inhabited.world.random_bits(bits)


def spend(work: str, count: int = 1) -> None:
    """Lets the time pass that this work, done `count` times, takes in a simulated run; otherwise has no effect."""
    _inhabited.world.spend(work, count)


def serve(work: str, count: int = 1) -> None:
    """As spend(), for work that the run's server does for this thread."""
    _inhabited.world.serve(work, count)


def transfer(bytes_up: int, bytes_down: int = 0) -> None:
    """Lets the time pass that messages to a simulated server and back take; those of 0 bytes take none."""
    _inhabited.world.transfer(bytes_up, bytes_down)


def shared_lock(name: str) -> AbstractContextManager[object] | None:
    """The simulated lock that processes share under this name; None where native code has it."""
    return _inhabited.world.shared_lock(name)


def simulated_cores() -> int | None:
    """Number of cores of a simulated run; None without one."""
    return _inhabited.world.cores


def used_core_seconds() -> Mapping[str, float]:
    """Simulated seconds of work that has ended, by kind of process; empty without a simulated run."""
    return _inhabited.world.used_core_seconds()
