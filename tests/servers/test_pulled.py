"""The table that is filled by pulling, from a queue that is a list in this test."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ChunkRefused, ClosedError, StorageError
from headrace.replay import ChunkWriter, Signature
from headrace.servers.pulled import PulledTable

from ..waiting import wait_for

SIGNATURE = Signature((2,), "float32")
STEPS = 4


def chunk(start: int, signature: Signature = SIGNATURE) -> bytes:
    """Four transitions of one episode, with the actions start .. start + 3."""
    writer = ChunkWriter(signature, chunk_steps=STEPS)
    writer.start(np.zeros(signature.observation_shape, np.float32))
    for action in range(start, start + STEPS):
        observation = np.full(signature.observation_shape, action, np.float32)
        writer.append(action, 1.0, observation, action + 1 == start + STEPS, False)
    return writer.take()[0]


class Queue:
    """Gives each list of chunks to one pull."""

    def __init__(self, *pulls: list[bytes] | Exception) -> None:
        self.pulls = list(pulls)
        self.count = 0
        self.ended = 0

    def pull(self) -> list[bytes]:
        self.count += 1
        found = self.pulls.pop(0) if self.pulls else []
        if isinstance(found, Exception):
            raise found
        return found

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def pulled() -> Iterator[Callable[..., PulledTable]]:
    tables: list[PulledTable] = []

    def make(queue: Queue, **options: float) -> PulledTable:
        settings = {"capacity": 100, "sampler": "uniform", **options}
        tables.append(PulledTable(SIGNATURE, queue.pull, queue.end, **settings))
        return tables[-1]

    yield make
    for table in tables:
        table.close()


def test_it_pulls_and_samples_everything(pulled: Callable[..., PulledTable]) -> None:
    queue = Queue([chunk(0), chunk(4)], [], [chunk(8)])
    table = pulled(queue, min_size=12)
    batches = table.batches_ahead(300, 0.4, 2)
    batch = batches.next(10.0)
    assert batch is not None
    assert batch.observation.shape == (300, 2)
    assert set(batch.action.tolist()) == set(range(12))  # (11/12)^300 < 1e-11 that one is missing
    stats = table.stats()
    assert stats["size"] == 12
    assert stats["pulled_chunks"] == 3
    assert stats["pulled_bytes"] == 3 * len(chunk(0))
    assert stats["pull_seconds"] > 0
    assert stats["pull_idle_seconds"] > 0
    assert stats["refused_chunks"] == 0


def test_a_batch_is_sampled_on_request(pulled: Callable[..., PulledTable]) -> None:
    table = pulled(Queue([chunk(0)]))
    batches = table.batches_ahead(4, 0.4, 8)
    assert table.stats()["samples"] == 0
    first = batches.next(10.0)
    assert table.stats()["samples"] == 4
    second = batches.next(10.0)
    assert table.stats()["samples"] == 8
    assert first is second  # the same memory


def test_no_batch_before_the_deadline(pulled: Callable[..., PulledTable]) -> None:
    assert pulled(Queue()).batches_ahead(4, 0.4, 1).next(0.01) is None


def test_a_snapshot_is_restored_before_anything_is_pulled(pulled: Callable[..., PulledTable], tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot")
    before = pulled(Queue([chunk(0)]))
    assert before.batches_ahead(2, 0.4, 1).next(10.0) is not None
    before.close()
    before.save(path)

    queue = Queue([chunk(4)])
    after = pulled(queue, min_size=8)
    assert queue.count == 0
    after.restore(path)
    assert after.stats()["size"] == 4
    batch = after.batches_ahead(300, 0.4, 1).next(10.0)
    assert batch is not None
    assert set(batch.action.tolist()) == set(range(8))


def test_priorities_are_the_tables(pulled: Callable[..., PulledTable]) -> None:
    table = pulled(Queue([chunk(0)]), sampler="prioritized", priority_exponent=1.0)
    batches = table.batches_ahead(64, 0.4, 1)
    assert batches.next(10.0) is not None
    keys, priorities = np.arange(4, dtype=np.uint64), np.array([0, 0, 7, 0], np.float32)
    assert table.update_priorities(keys, priorities) == 4
    batch = batches.next(10.0)
    assert batch is not None
    assert set(batch.key.tolist()) == {2}


def test_a_blocking_limiter_stops_pulling(pulled: Callable[..., PulledTable]) -> None:
    """An insert goes ahead while i - s <= 8, i inserts since the first chunk reached min_size, s samples."""
    queue = Queue(*[[chunk(4 * i)] for i in range(10)])
    table = pulled(queue, samples_per_insert=1.0, limiter_tolerance=8.0)
    batches = table.batches_ahead(4, 0.4, 1)
    assert batches.next(10.0) is not None  # s = 4: inserts up to i = 16, so 20 are stored, and one chunk waits
    wait_for(lambda: table.stats()["insert_blocked_seconds"] > 0 and len(queue.pulls) == 4)
    assert table.stats()["size"] == 20
    for _ in range(2):  # s = 12: up to i = 24
        assert batches.next(10.0) is not None
    wait_for(lambda: table.stats()["size"] == 28 and len(queue.pulls) == 2)


def test_a_pause_blocks_pulled_chunks(pulled: Callable[..., PulledTable]) -> None:
    queue = Queue([chunk(0)], [chunk(4)], [chunk(8)])
    table = pulled(queue)
    table.set_paused(True)
    batches = table.batches_ahead(4, 0.4, 1)
    assert batches.next(0.05) is None
    wait_for(lambda: len(queue.pulls) == 2)
    assert table.stats()["size"] == 0
    table.set_paused(False)
    wait_for(lambda: table.stats()["size"] == 12)


def test_a_chunk_that_does_not_fit_is_counted(pulled: Callable[..., PulledTable]) -> None:
    queue = Queue([chunk(0), chunk(0, Signature((3,), "float32")), b"nonsense", chunk(4)])
    table = pulled(queue, min_size=8)
    assert table.batches_ahead(8, 0.4, 1).next(10.0) is not None
    assert table.stats()["refused_chunks"] == 2
    assert table.stats()["size"] == 8


def test_the_learner_gets_an_error_if_no_chunk_fits(pulled: Callable[..., PulledTable]) -> None:
    wrong = chunk(0, Signature((3,), "float32"))
    table = pulled(Queue(*[[wrong]] * 16))
    with pytest.raises(ChunkRefused, match=r"not one of 16 chunks that actors sent fits: .+"):
        table.batches_ahead(4, 0.4, 1).next(None)
    with pytest.raises(ChunkRefused):
        table.stats()


@pytest.mark.parametrize("error", [StorageError("the queue burns"), ValueError("the queue burns")])
def test_a_pull_that_fails_is_the_learners_error(pulled: Callable[..., PulledTable], error: Exception) -> None:
    table = pulled(Queue([chunk(0)], error), min_size=100)
    batches = table.batches_ahead(4, 0.4, 1)
    with pytest.raises(type(error), match=r"^the queue burns$"):
        batches.next(None)
    with pytest.raises(type(error), match=r"^the queue burns$"):
        table.stats()
    with pytest.raises(type(error), match=r"^the queue burns$"):
        table.update_priorities(np.zeros(1, np.uint64), np.zeros(1, np.float32))


def test_close_ends_the_thread_and_the_senders(pulled: Callable[..., PulledTable]) -> None:
    queue = Queue()
    table = pulled(queue)
    batches = table.batches_ahead(4, 0.4, 1)
    assert batches.next(0.01) is None
    outcome: list[Exception] = []

    def learn() -> None:
        try:
            batches.next(None)
        except ClosedError as error:
            outcome.append(error)

    waiting = threading.Thread(target=learn)
    waiting.start()
    table.close()
    waiting.join(10.0)
    table.close()
    assert len(outcome) == 1
    assert queue.ended == 1
    count = queue.count
    with pytest.raises(ClosedError):
        batches.next(0.01)
    assert queue.count == count
    assert "puller" not in [thread.name for thread in threading.enumerate()]
