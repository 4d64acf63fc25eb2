"""Simulated time: order, cores, messages, kills."""

import threading
from collections.abc import Callable

import pytest

from headrace.clock import (
    monotonic,
    new_event,
    new_lock,
    random_bits,
    serve,
    sleep,
    spend,
    start_thread,
    transfer,
    used_core_seconds,
)
from headrace.errors import ClosedError, LaunchError
from headrace.launch.simulated.world import Process, SimulatedWorld

from .conftest import MakeWorld


def worker(name: str, ends: list[tuple[str, float]], calls: int = 1) -> Callable[[], None]:
    """Works for a second at a time."""

    def work() -> None:
        for _ in range(calls):
            spend("second")
        ends.append((name, monotonic()))

    return work


@pytest.mark.parametrize(("cores", "seconds"), [(1, 3.0), (2, 1.5), (3, 1.0), (8, 1.0)])
def test_busy_threads_share_the_cores(make_world: MakeWorld, cores: int, seconds: float) -> None:
    make_world(cores)
    ends: list[tuple[str, float]] = []
    for thread in [start_thread(worker(name, ends), name) for name in "abc"]:
        thread.join()
    assert [end for _, end in ends] == pytest.approx([seconds] * 3)


def test_work_that_takes_no_time_is_progress(make_world: MakeWorld) -> None:
    """A role may do much of it in one turn, such as an evaluation whose steps cost nothing."""
    world = make_world()
    seen = []

    def work() -> None:
        for _ in range(3):
            spend("nothing")
            seen.append(world.progress())

    role = world.process("evaluator 0")
    world.start(role, work, "main")
    sleep(1.0)
    turns = [each[1] for each in seen if each is not None]
    assert turns == [turns[0], turns[0] + 1, turns[0] + 2]
    assert monotonic() == 1.0


@pytest.mark.parametrize(("cores", "ends"), [(1, (2.0, 3.0)), (2, (1.5, 2.5)), (3, (1.25, 2.25)), (5, (1.125, 2.125))])
def test_busy_cores_slow_each_other(make_world: MakeWorld, cores: int, ends: tuple[float, float]) -> None:
    make_world(cores, contention=0.5)
    found: list[tuple[str, float]] = []
    for thread in [start_thread(worker("short", found), "a"), start_thread(worker("long", found, 2), "b")]:
        thread.join()
    assert found == [("short", pytest.approx(ends[0])), ("long", pytest.approx(ends[1]))]
    occupied = sum(ends) if cores > 1 else ends[1]
    assert used_core_seconds() == {"training": pytest.approx(occupied)}


@pytest.mark.parametrize(
    ("threads", "ends"), [(2, 1.125), (3, 1.5 * 1.125 * 1.25), (4, 2 * 1.125 * 1.5), (5, 2.5 * 1.125 * 1.5)]
)
def test_threads_that_share_a_core_slow_each_other(make_world: MakeWorld, threads: int, ends: float) -> None:
    make_world(2, contention=0.125, switching=0.5)
    found: list[tuple[str, float]] = []
    for thread in [start_thread(worker("each", found), str(number)) for number in range(threads)]:
        thread.join()
    assert found == [("each", pytest.approx(ends))] * threads


def test_a_thread_that_ends_leaves_its_share_to_the_others(make_world: MakeWorld) -> None:
    make_world(1)
    ends: list[tuple[str, float]] = []
    for thread in [start_thread(worker("short", ends), "a"), start_thread(worker("long", ends, 3), "b")]:
        thread.join()
    assert ends == [("short", 2.0), ("long", 4.0)]  # 1 of 1 and 1 of 3 after two seconds; then 2 alone


def test_waiting_takes_no_core(make_world: MakeWorld) -> None:
    make_world(1)
    ends: list[tuple[str, float]] = []
    thread = start_thread(worker("works", ends, 2), "a")
    sleep(1.5)
    assert monotonic() == 1.5
    thread.join()
    assert ends == [("works", 2.0)]
    assert thread.is_alive() is False


def test_an_update_costs_its_parts_once(make_world: MakeWorld) -> None:
    make_world()
    spend("gradient")
    assert monotonic() == 2.0
    spend("apply")
    spend("train")  # both parts were charged
    assert monotonic() == 3.0
    spend("train")
    assert monotonic() == 6.0
    spend("row", 4)
    spend("unknown")
    assert monotonic() == 10.0
    spend("gradient")
    spend("sum")
    spend("train")  # the gradient was not applied
    assert monotonic() == 12.5
    for work in ("gradient", "apply", "gradient", "apply", "train"):  # two vectors
        spend(work)
    assert monotonic() == 15.5
    spend("gradient")
    spend("sum")
    serve("apply")  # of the sum, by the server
    spend("train")
    assert monotonic() == 19.0


def test_work_that_has_not_ended_counts_as_used(make_world: MakeWorld) -> None:
    """Of two seconds at once on one core each has had a half after one; one is killed then."""
    world = make_world(1)
    processes = [world.process(f"worker {number}") for number in (0, 1)]
    tasks = [world.start(process, worker("w", [], 1), "main") for process in processes]
    sleep(1.0)
    assert used_core_seconds() == {"worker": 1.0}
    world.end(processes[0])
    for task in tasks:
        task.join()
    assert monotonic() == 1.5
    assert used_core_seconds() == {"worker": 1.5}


def test_work_counts_as_used_by_its_kind_of_process(make_world: MakeWorld) -> None:
    world = make_world(1)
    ends: list[tuple[str, float]] = []
    tasks = [world.start(world.process(f"worker {number}"), worker("w", ends, 2), "main") for number in (0, 1)]
    spend("second")
    for task in tasks:
        task.join()
    assert used_core_seconds() == {"training": 1.0, "worker": 4.0}


def test_work_of_the_server_needs_a_core_and_is_that_of_the_training_process(make_world: MakeWorld) -> None:
    world, ends = make_world(1), []

    def ask() -> None:
        serve("second")
        spend("second")
        ends.append(monotonic())

    process = world.process("worker 0")
    process.slowdown = 3.0
    task = world.start(process, ask, "main")
    spend("second")  # both share the core
    assert monotonic() == 2.0
    task.join()
    assert ends == [5.0]
    assert used_core_seconds() == {"training": 2.0, "worker": 3.0}


def order(world: SimulatedWorld) -> tuple[list[str], list[int]]:
    """The order in which eight threads run that are due at the same time, and a number that each draws."""
    names: list[str] = []
    numbers: list[int] = []

    def run(name: str) -> None:
        names.append(name)
        numbers.append(random_bits(32))

    for thread in [start_thread(lambda name=name: run(name), name) for name in "abcdefgh"]:  # type: ignore[misc]
        thread.join()
    assert world.monotonic() == 0.0
    return names, numbers


def test_the_seed_decides_what_happens_at_the_same_time(make_world: MakeWorld) -> None:
    runs = [order(make_world(seed=seed)) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]
    assert sorted(runs[2][0]) == list("abcdefgh")
    assert runs[0][1] != runs[2][1]


def test_messages_take_turns_on_the_link(make_world: MakeWorld) -> None:
    make_world(8)
    arrivals: list[float] = []

    def send() -> None:
        transfer(200)  # two seconds, and one second of latency
        arrivals.append(monotonic())

    for thread in [start_thread(send, name) for name in "ab"]:
        thread.join()
    assert arrivals == [3.0, 5.0]


def test_a_delayed_message_arrives_later_and_one_on_a_cut_link_begins_later(make_world: MakeWorld) -> None:
    world = make_world(8)
    arrivals: dict[str, float] = {}

    def send() -> None:
        transfer(200)
        arrivals[world.running.process.name] = monotonic()

    delayed, cut = world.process("delayed"), world.process("cut")
    delayed.delay_seconds, cut.cut_until = 0.5, 10.0
    threads = [world.start(each, send, "main") for each in (delayed, cut)]
    for thread in threads:
        thread.join()
    assert arrivals == {"delayed": 3.5, "cut": 13.0}


def test_a_killed_process_can_do_nothing_any_more(make_world: MakeWorld) -> None:
    world = make_world()
    said: list[str] = []
    lock = new_lock()

    def live() -> None:
        try:
            with lock:
                sleep(100.0)
        finally:
            said.append("killed")
            sleep(1.0)
            said.append("alive")

    process: Process = world.process("victim")
    task = world.start(process, live, "main")
    sleep(1.0)
    world.end(process)
    task.join()
    assert (said, monotonic()) == (["killed"], 1.0)
    with lock:  # it was released
        pass


def test_an_interrupted_thread_raises_where_it_waits(make_world: MakeWorld) -> None:
    world, said = make_world(), []

    def live() -> None:
        try:
            spend("second")
        except ClosedError as error:
            said.append(str(error))

    task = world.start(world.process("role"), live, "main")
    sleep(0.25)
    world.interrupt(task, ClosedError("asked to stop"))
    task.join()
    assert (said, monotonic()) == (["asked to stop"], 0.25)
    spend("second")  # alone: the interrupted work does not count
    assert monotonic() == 1.25


def test_a_paused_or_slow_process_falls_behind(make_world: MakeWorld) -> None:
    world = make_world(8)
    ends: list[tuple[str, float]] = []
    processes = {name: world.process(name) for name in ("paused", "slow", "well")}
    tasks = [world.start(process, worker(name, ends, 2), "main") for name, process in processes.items()]
    world.slow(processes["slow"], 10.0)
    sleep(0.5)
    world.pause(processes["paused"], 5.0)
    for task in tasks:
        task.join()
    assert ends == [("well", 2.0), ("paused", 6.5), ("slow", 20.0)]  # half a second of work was done before the pause
    assert used_core_seconds() == {"well": 2.0, "paused": 2.0, "slow": 20.0}


def test_work_that_has_begun_gets_slower_and_fast_again(make_world: MakeWorld) -> None:
    world, ends = make_world(8), []
    process = world.process("actor 0")

    def serves() -> None:
        world.serve("second")
        ends.append(("server", monotonic()))

    tasks = [world.start(process, worker("role", ends, 1), "main"), world.start(process, serves, "request")]
    sleep(0.5)
    world.slow(process, 10.0)
    sleep(2.5)  # half a second of work is left, of which a quarter is done: 0.25 s
    world.pause(process, 4.0)
    world.slow(process, 1.0)
    for task in tasks:
        task.join()
    assert ends == [("server", 1.0), ("role", pytest.approx(4.25))]


def test_the_server_goes_on_with_what_a_paused_process_has_asked_for(make_world: MakeWorld) -> None:
    """Its answer waits until the pause is over."""
    world, ends = make_world(8), []
    process = world.process("worker 0")

    def ask() -> None:
        serve("second")
        ends.append(("served", monotonic()))
        transfer(0, 100)
        ends.append(("answered", monotonic()))

    task = world.start(process, ask, "main")
    sleep(0.5)
    world.pause(process, 10.0)
    task.join()
    assert ends == [("served", 1.0), ("answered", 10.0)]


def test_a_timer_and_work_that_end_at_the_same_time_come_in_a_random_order(make_world: MakeWorld) -> None:
    firsts = []
    for seed in range(20):
        make_world(2, seed)
        names: list[tuple[str, float]] = []
        working = start_thread(worker("work", names), "work")
        sleep(1.0)
        names.append(("timer", monotonic()))
        working.join()
        assert [end for _, end in names] == [1.0, 1.0]
        firsts.append(names[0][0])
    assert {*firsts} == {"work", "timer"}


def test_a_paused_process_leaves_its_core_to_others_and_may_be_paused_again(make_world: MakeWorld) -> None:
    world = make_world(1)
    ends: list[tuple[str, float]] = []
    processes = {name: world.process(name) for name in ("paused", "well")}
    tasks = [world.start(process, worker(name, ends, 2), "main") for name, process in processes.items()]
    sleep(1.0)  # each has done half a second
    world.pause(processes["paused"], 1.25)
    sleep(0.1)
    world.pause(processes["paused"], 2.5)
    for task in tasks:
        task.join()
    assert ends == [("well", 2.5), ("paused", 4.0)]
    assert used_core_seconds() == {"well": pytest.approx(2.0), "paused": pytest.approx(2.0)}


def test_a_deadlock_is_an_error_of_the_run(make_world: MakeWorld) -> None:
    make_world()
    with pytest.raises(LaunchError, match="every thread waits"):
        new_event().wait()


def test_no_thread_is_left(make_world: MakeWorld) -> None:
    world = make_world()
    start_thread(lambda: sleep(1e9), "sleeper")
    start_thread(lambda: new_event().wait(), "waiter")
    sleep(1.0)
    names = {"training: sleeper", "training: waiter"}
    assert names <= {thread.name for thread in threading.enumerate()}
    world.close()
    assert not names & {thread.name for thread in threading.enumerate()}
