"""Newer policies while an actor acts: when it polls, what is transferred, and what it installs."""

import threading
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from headrace.errors import ClosedError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.parameters.refresh import PullSchedule, Refresh
from headrace.parameters.snapshot import Stamp
from headrace.types import EnvironmentSpec

from ..waiting import wait_for

GRAPH = PolicyGraph(Architecture.of(EnvironmentSpec((1,), "float32", actions=1), "mlp", ()))
OBSERVATION = np.ones((1, 1), np.float32)


def graph(version: int) -> bytes:
    """A policy whose output is its version."""
    return GRAPH.serialize({"q.weight": np.zeros((1, 1), np.float32), "q.bias": np.array([version], np.float32)})


class Store:
    """Counts requests and transferred blobs."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[int, bytes]] = {}
        self.asked: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()
        self.error: Exception | None = None

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        self.blobs[name] = (version, bytes(data))
        return version

    def publish_policy(self, version: int) -> None:
        self.publish("policy", graph(version), version)
        self.publish("news", Stamp.now().to_json().encode(), version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        self.asked[name] += 1
        if name == "policy" and self.error:
            raise self.error
        found = self.blobs.get(name)
        if found is None or found[0] <= newer_than:
            return None
        self.moved[name] += len(found[1])
        return found


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def refresh(store: Store) -> Iterator[Refresh]:
    made = Refresh(store, "policy", "news", lambda data: data, Policy(graph(1), 1))
    yield made
    made.close()


def poll_without_result(store: Store, refresh: Refresh, count: int) -> None:
    """Polls until there were this many requests; a poll during another one sends no request."""
    wait_for(lambda: refresh.poll() or store.asked["news"] >= count)


def look_until_ready(refresh: Refresh, behind: int = 1) -> None:
    wait_for(lambda: refresh.poll(behind) or refresh.ready)


def test_nothing_is_transferred_if_nothing_is_new(store: Store, refresh: Refresh) -> None:
    store.publish_policy(1)
    for count in range(1, 51):
        poll_without_result(store, refresh, count)
    assert store.asked.keys() == {"news"}
    assert not store.moved
    assert not refresh.ready


def test_a_new_policy_is_installed_between_two_steps(store: Store, refresh: Refresh) -> None:
    store.publish_policy(7)
    refresh.poll()
    wait_for(lambda: refresh.ready)
    assert refresh.output(OBSERVATION) == [[1.0]]  # until it is taken
    assert refresh.version == 1
    assert refresh.install() == refresh.version == 7
    assert refresh.output(OBSERVATION) == [[7.0]]
    assert not refresh.ready
    report = refresh.figures()
    assert report["count"] == 1
    assert 0 < report["latency_seconds"] < 30
    assert report["seconds"].keys() == {"fetch", "deserialize", "load"}
    assert report["seconds"]["load"] > 0
    assert store.moved["policy"] == len(graph(7))


def test_no_second_fetch_starts_while_one_is_in_progress(store: Store, refresh: Refresh) -> None:
    store.publish_policy(2)
    refresh.poll()
    store.publish_policy(3)
    for _ in range(10):
        refresh.poll()
    wait_for(lambda: refresh.ready)
    for _ in range(10):
        refresh.poll()
    time.sleep(0.05)
    assert store.asked["news"] == 1
    assert refresh.install() in (2, 3)


def test_installed_versions_increase_and_outputs_match_them(store: Store, refresh: Refresh) -> None:
    published = threading.Thread(target=lambda: [store.publish_policy(version) for version in range(2, 200)])
    published.start()
    taken = [1]
    while taken[-1] < 199:
        look_until_ready(refresh)
        taken.append(refresh.install())
        assert refresh.output(OBSERVATION) == [[float(taken[-1])]]
    published.join()
    assert taken == sorted(set(taken))
    assert refresh.figures()["count"] == len(taken) - 1


def test_a_policy_older_than_its_news_is_not_installed(store: Store, refresh: Refresh) -> None:
    store.publish_policy(2)
    refresh.poll()
    wait_for(lambda: refresh.ready)
    assert refresh.install() == 2
    store.publish("news", Stamp.now().to_json().encode(), 3)  # its policy was lost with a server
    poll_without_result(store, refresh, store.asked["news"] + 2)
    assert not refresh.ready
    store.publish_policy(4)
    look_until_ready(refresh)
    assert refresh.install() == 4


def test_a_policy_newer_than_its_news_is_installed_without_an_age(store: Store, refresh: Refresh) -> None:
    store.publish_policy(2)
    store.publish("policy", graph(3), 3)
    refresh.poll()
    wait_for(lambda: refresh.ready)
    assert refresh.install() == 3
    assert refresh.figures()["latency_seconds"] is None


def test_it_waits_until_it_is_enough_versions_behind(store: Store, refresh: Refresh) -> None:
    store.publish_policy(5)
    wait_for(lambda: refresh.poll(behind=5) or store.asked["news"] >= 3)
    assert not store.moved
    store.publish_policy(6)
    look_until_ready(refresh, behind=5)
    assert refresh.install() == 6


class Away(Store):
    """A connection whose server does not answer until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        self.asked[name] += 1
        assert self.closed.wait(30)
        raise ClosedError("closed")


def test_close_ends_a_wait_after_its_connection_was_closed() -> None:
    away = Away()
    refresh = Refresh(away, "policy", "news", lambda data: data, Policy(graph(1), 1))
    refresh.poll()
    wait_for(lambda: away.asked["news"] == 1)
    away.closed.set()
    refresh.close()
    assert not refresh._thread.is_alive()
    assert refresh.output(OBSERVATION) == [[1.0]]


@pytest.mark.parametrize("error", [ClosedError("gone"), ValueError("no graph")])
def test_an_error_of_the_thread_is_raised_in_the_acting_thread(
    store: Store, refresh: Refresh, error: Exception
) -> None:
    store.publish_policy(2)
    store.error = error
    refresh.poll()
    wait_for(lambda: refresh.ready)
    with pytest.raises(type(error), match=str(error)):
        refresh.install()


def test_steps_are_counted_over_all_environments() -> None:
    schedule = PullSchedule(30, "steps")
    assert [schedule.due(8) for _ in range(8)] == [False, False, False, True] * 2
    assert schedule.behind == 1


def test_seconds_are_counted_from_the_last_poll() -> None:
    now = [100.0]
    schedule = PullSchedule(0.5, "seconds", lambda: now[0])
    seen = []
    for _ in range(8):
        now[0] += 0.2
        seen.append(schedule.due(1000))
    assert seen == [False, False, True, False, False, True, False, False]
    assert schedule.behind == 1


def test_versions_are_polled_every_hundredth_of_a_second() -> None:
    now = [0.0]
    schedule = PullSchedule(40, "versions", lambda: now[0])
    assert schedule.behind == 40
    seen = []
    for _ in range(6):
        now[0] += 0.004
        seen.append(schedule.due(1000))
    assert seen == [False, False, True, False, False, True]
