"""The clock's functions belong to the world of their thread."""

import threading

import pytest

from headrace import clock
from headrace.machine import available_cores


class Still(clock.World):
    """A world in which no time passes by itself."""

    cores = 7

    def __init__(self) -> None:
        self.now = 100.0
        self.work: list[tuple[str, int]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def random_bits(self, bits: int) -> int:
        return (1 << bits) - 1

    def spend(self, work: str, count: int = 1) -> None:
        self.work.append((work, count))


def test_a_thread_in_a_world_takes_everything_from_it_and_others_do_not() -> None:
    world, elsewhere = Still(), []
    with clock.inhabit(world):
        clock.sleep(5.0)
        clock.spend("environment", 16)
        assert clock.monotonic() == 105.0
        assert clock.random_bits(4) == 15
        assert available_cores() == 7
        thread = threading.Thread(target=lambda: elsewhere.append(clock.simulated_cores()))
        thread.start()
        thread.join()
    assert world.work == [("environment", 16)]
    assert elsewhere == [None]
    assert clock.simulated_cores() is None


def test_a_world_is_left_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), clock.inhabit(Still()):
        raise ZeroDivisionError
    assert clock.simulated_cores() is None


def test_the_machines_world_has_real_threads() -> None:
    event, seen = clock.new_event(), []
    thread = clock.start_thread(lambda: seen.append(event.wait(30)), "waits")
    event.set()
    thread.join(30)
    assert (seen, thread.is_alive()) == ([True], False)
    with clock.new_executor("calls") as executor:
        assert executor.submit(int, "7").result() == 7
    clock.spend("environment")  # the work itself takes its time
    assert clock.shared_lock("model") is None
