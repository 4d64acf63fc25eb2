"""Events, locks, conditions and executors in simulated time."""

import pytest

from headrace.clock import monotonic, new_condition, new_event, new_executor, new_lock, shared_lock, sleep, start_thread

from .conftest import MakeWorld


def test_an_event_ends_waits_or_their_deadline_does(make_world: MakeWorld) -> None:
    make_world()
    event = new_event()
    assert (event.wait(2.0), event.wait(0.0), monotonic()) == (False, False, 2.0)

    def set_later() -> None:
        sleep(3.0)
        event.set()

    start_thread(set_later, "setter")
    assert (event.wait(10.0), monotonic()) == (True, 5.0)
    event.clear()
    assert not event.is_set()


def test_a_lock_is_held_over_waits_and_found_by_its_name(make_world: MakeWorld) -> None:
    make_world()
    lock = shared_lock("model")
    assert lock is not None
    assert lock is shared_lock("model") is not shared_lock("another")

    def hold() -> None:
        with lock:
            sleep(2.0)

    start_thread(hold, "holder")
    sleep(1.0)
    with lock:
        assert monotonic() == 2.0


def test_a_condition_waits_for_its_predicate(make_world: MakeWorld) -> None:
    make_world()
    condition, items = new_condition(), []

    def fill() -> None:
        for item in range(3):
            sleep(1.0)
            with condition:
                items.append(item)
                condition.notify_all()

    start_thread(fill, "filler")
    with condition:
        assert condition.wait_for(lambda: len(items) == 2)
        assert monotonic() == 2.0
        assert not condition.wait_for(lambda: len(items) == 4, 5.0)
    assert (items, monotonic()) == ([0, 1, 2], 7.0)


def test_an_executor_calls_in_order_and_passes_errors_on(make_world: MakeWorld) -> None:
    make_world()
    calls: list[float] = []

    def call(seconds: float) -> float:
        sleep(seconds)
        calls.append(seconds)
        return 1.0 / seconds

    with new_executor("calls") as executor:
        first, second, third = (executor.submit(call, seconds) for seconds in (2.0, 0.0, 1.0))
        assert not first.done()
        assert (first.result(), monotonic()) == (0.5, 2.0)
        with pytest.raises(ZeroDivisionError):
            second.result()
    assert (third.done(), calls, monotonic()) == (True, [2.0, 0.0, 1.0], 3.0)


def test_an_executor_drops_calls_that_have_not_begun(make_world: MakeWorld) -> None:
    make_world()
    executor = new_executor("calls")
    first, second = executor.submit(sleep, 2.0), executor.submit(sleep, 2.0)
    sleep(1.0)
    executor.shutdown(cancel_futures=True)
    assert (first.done(), second.done(), monotonic()) == (True, False, 2.0)


def test_a_plain_lock_excludes(make_world: MakeWorld) -> None:
    make_world()
    lock, inside = new_lock(), []

    def enter(name: str) -> None:
        with lock:
            inside.append(name)
            sleep(1.0)
            inside.append(name)

    for thread in [start_thread(lambda name=name: enter(name), name) for name in "ab"]:  # type: ignore[misc]
        thread.join()
    assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_a_thread_that_is_killed_when_it_could_take_a_lock_leaves_it_to_the_next(make_world: MakeWorld) -> None:
    world = make_world()
    lock, entered = new_lock(), []

    def enter() -> None:
        with lock:
            entered.append(monotonic())

    victim = world.process("victim")
    with lock:
        world.start(victim, enter, "main")
        sleep(1.0)
        following = start_thread(enter, "following")
        sleep(1.0)
    world.end(victim)  # it was woken, but has not run yet
    following.join()
    assert entered == [2.0]
