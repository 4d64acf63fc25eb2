"""Publishing while the learner works."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from headrace.errors import DivergenceError, ServerError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters import Policy
from headrace.parameters.snapshot import Snapshot, Stamp, decode_snapshot
from headrace.roles.handles import PARAMETERS, POLICY
from headrace.roles.publisher import Blobs, Publisher, graph_blobs, parameter_blobs
from headrace.types import EnvironmentSpec

from ..waiting import wait_for


class Store:
    """Accepts publications once it is released."""

    def __init__(self) -> None:
        self.published: list[tuple[str, int, bytes]] = []
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.error: Exception | None = None

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        self.begun.release()
        assert self.go.acquire(timeout=30)
        if self.error:
            raise self.error
        self.published.append((name, version, bytes(data)))
        return version

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        raise NotImplementedError

    def let_go(self, count: int = 100) -> None:
        for _ in range(count):
            self.go.release()


def snapshot(value: float, seconds: float = 0.0) -> Snapshot:
    weights = {"q.weight": np.zeros((1, 1), np.float32), "q.bias": np.array([value], np.float32)}
    return Snapshot(weights, None, Stamp("here", seconds))


def encode(offered: Snapshot) -> Blobs:
    return {"value": str(offered.weights["q.bias"][0]).encode(), "seconds": str(offered.taken.seconds).encode()}


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def publisher(store: Store) -> Iterator[Publisher]:
    made = Publisher(store, encode)
    yield made
    store.let_go()
    made.close()


def test_the_learner_continues_and_the_newest_offer_wins(store: Store, publisher: Publisher) -> None:
    publisher.offer(snapshot(1.0), 1)
    assert store.begun.acquire(timeout=30)  # and is held there
    publisher.offer(snapshot(2.0), 2)
    publisher.offer(snapshot(3.0), 3)
    assert publisher.version == 0
    store.let_go()
    for _ in range(3):
        assert store.begun.acquire(timeout=30)
    publisher.close()
    assert [(name, version) for name, version, _ in store.published] == [
        ("value", 1),
        ("seconds", 1),
        ("value", 3),
        ("seconds", 3),
    ]
    assert publisher.version == 3


def test_a_version_that_is_published_again_has_the_same_bytes(store: Store, publisher: Publisher) -> None:
    store.let_go()
    publisher.publish(snapshot(1.0, seconds=5.0), 4)
    publisher.publish(snapshot(1.0, seconds=6.0), 4)
    assert store.published[:2] == store.published[2:] == [("value", 4, b"1.0"), ("seconds", 4, b"5.0")]


def test_an_older_version_is_not_published(store: Store, publisher: Publisher) -> None:
    store.let_go()
    publisher.publish(snapshot(1.0), 4)
    publisher.publish(snapshot(2.0), 3)
    assert {version for _, version, _ in store.published} == {4}


@pytest.mark.parametrize("error", [ServerError("no room"), MemoryError("no room")])
def test_an_error_of_the_thread_is_raised_by_a_later_offer(
    store: Store, publisher: Publisher, error: Exception
) -> None:
    store.error = error
    store.let_go()
    publisher.offer(snapshot(1.0), 1)

    def offer_more() -> None:
        for version in range(2, 1000):
            publisher.offer(snapshot(1.0), version)
            threading.Event().wait(0.01)

    with pytest.raises(type(error), match="no room"):
        offer_more()
    assert not store.published


def test_an_error_is_not_raised_after_a_newer_version_is_published(store: Store, publisher: Publisher) -> None:
    """The thread fails with version 1 while the learner waits to publish version 2 at once."""
    publisher.offer(snapshot(1.0), 1)
    assert store.begun.acquire(timeout=30)  # and is held there
    publishes = threading.Thread(target=publisher.publish, args=(snapshot(2.0), 2))
    store.error = ServerError("no room")
    publishes.start()
    threading.Event().wait(0.05)  # it gets as far as it can
    store.go.release()
    assert store.begun.acquire(timeout=30)  # version 2 is next: the thread has failed
    store.error = None
    for _ in range(1000):
        if publisher._error is not None:  # and has said so
            break
        threading.Event().wait(0.001)
    store.let_go()
    publishes.join(30)
    assert publisher.version == 2
    publisher.offer(snapshot(3.0), 3)
    wait_for(lambda: publisher.version == 3)


def test_after_an_error_the_same_version_can_be_published(store: Store, publisher: Publisher) -> None:
    store.let_go()
    store.error = ServerError("no room")
    with pytest.raises(ServerError, match="no room"):
        publisher.publish(snapshot(1.0), 1)
    assert publisher.version == 0
    store.error = None
    publisher.publish(snapshot(1.0), 1)
    assert [version for _, version, _ in store.published] == [1, 1]
    assert publisher.version == 1


def test_a_version_is_published_again_from_memory_that_was_used_before(store: Store) -> None:
    store.let_go()
    publisher = Publisher(store, parameter_blobs(PARAMETERS))
    try:
        for version, value in enumerate((1.0, 2.0, 2.0), 1):
            publisher.publish(snapshot(value), min(version, 2))
        assert [decode_snapshot(data).weights["q.bias"].item() for *_, data in store.published] == [1, 2, 2]
    finally:
        publisher.close()


def test_parameters_that_are_not_finite_are_not_published(store: Store, publisher: Publisher) -> None:
    store.let_go()
    with pytest.raises(DivergenceError, match="is not finite; a smaller learning_rate is required"):
        publisher.publish(snapshot(float("nan")), 1)
    assert not store.published


def test_blobs_are_those_that_actors_and_the_quantizer_read() -> None:
    graph = PolicyGraph(Architecture.of(EnvironmentSpec((1,), "float32", actions=1), "mlp", ()))
    blobs = graph_blobs(graph, POLICY)(snapshot(2.5, 7.0))
    assert list(blobs) == ["policy", "policy-news"]  # news comes last
    assert Policy(bytes(blobs["policy"]), 1).output(np.zeros((1, 1), np.float32)) == [[2.5]]
    assert Stamp.from_json(bytes(blobs["policy-news"])) == ("here", 7.0)
    [(name, parameters)] = parameter_blobs(PARAMETERS)(snapshot(2.5, 7.0)).items()
    assert name == "parameters"
    assert decode_snapshot(parameters).weights["q.bias"] == [2.5]
