"""The bindings of streams of batches, and waits of all kinds that a signal or another thread ends."""

import collections
import gc
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from headrace import errors
from headrace._native import BatchAhead, BatchStream, BatchView, ChunkWriter, Client, Server, Signature

from .conftest import SIGNATURE, STEPS, arrays, chunk


class TestBatchStream:
    def test_gives_what_was_inserted(self, server: Server, address: str) -> None:
        signature = Signature((3, 2), "uint8", (2,), "float32", stack=2)
        writer = ChunkWriter(signature, chunk_steps=STEPS)
        writer.start(np.zeros((3, 2), np.uint8))
        for i in range(STEPS):
            writer.append(np.array([i, -i], np.float32), i, np.full((3, 2), i + 1, np.uint8), i + 1 == STEPS, False)
        server.add_table("replay", signature).insert(writer.take()[0])
        stream = BatchStream(address, "replay", 16, 0.4)
        assert stream.signature == signature
        assert stream.shared == address.startswith("unix:")
        for _ in range(10):
            batch = stream.next(10.0)
            assert batch is not None
            observation, next_observation, action, reward, discount, weight, probability, key, version = batch
            step = key.astype(np.int64)
            assert observation.shape == next_observation.shape == (16, 2, 3, 2)
            assert observation[:, 1, 0, 0].tolist() == step.tolist()
            assert observation[:, 0, 2, 1].tolist() == np.maximum(step - 1, 0).tolist()
            assert next_observation[:, 1, 2, 1].tolist() == (step + 1).tolist()
            assert action.tolist() == [[i, -i] for i in step]
            assert reward.tolist() == step.tolist()
            assert np.all((discount == 0) == (step == STEPS - 1))
            assert np.all(weight == 1)
            np.testing.assert_allclose(probability, 1 / STEPS)
            assert version.tolist() == [0] * 16
            assert [each.dtype.name for each in batch[2:]] == ["float32"] * 5 + ["uint64"] * 2

    def test_arrays_are_read_only_and_reused(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE).insert(chunk())
        stream = BatchStream(address, "replay", 4, 0.4, credit=3)
        seen = {}
        for _ in range(30):
            batch = stream.next(10.0)
            assert batch is not None
            assert not any(each.flags.writeable for each in batch)
            seen[id(batch)] = batch
        assert len(seen) == 3

    def test_arrays_outlive_the_stream(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE).insert(chunk())
        stream = BatchStream(address, "replay", 4, 0.4)
        batch = stream.next(10.0)
        assert batch is not None
        observation, key = batch[0], batch[7]
        del batch
        stream.close()
        del stream
        gc.collect()
        assert observation.tolist() == [[i, i] for i in key]

    def test_waits_for_experience_and_ends_with_its_table(self, server: Server, address: str) -> None:
        table = server.add_table("replay", SIGNATURE)
        stream = BatchStream(address, "replay", 4, 0.4, credit=2)
        assert stream.next(0.0) is None
        table.insert(chunk())
        assert stream.next(10.0) is not None
        table.close()
        with pytest.raises(errors.ClosedError):
            collections.deque(iter(lambda: stream.next(10.0), None), maxlen=0)  # what was in flight, then the end

    def test_refusals(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE)
        with pytest.raises(errors.ServerError, match="other"):
            BatchStream(address, "other", 4, 0.4)
        for credit in (1, 65):
            with pytest.raises(errors.ConfigError, match="credit"):
                BatchStream(address, "replay", 4, 0.4, credit=credit)

    def test_close_releases_waiting_callers(self, server: Server, address: str) -> None:
        server.add_table("replay", SIGNATURE)
        stream = BatchStream(address, "replay", 4, 0.4)
        closer = threading.Timer(0.05, stream.close)
        closer.start()
        with pytest.raises(errors.ClosedError):
            stream.next()
        closer.join()


class Interrupted(Exception):
    """What a signal's handler raises here, as Ctrl-C's would KeyboardInterrupt."""


@pytest.mark.parametrize("where", ["table", "ahead", "client", "stream"])
def test_a_signal_ends_a_wait_without_deadline(server: Server, where: str) -> None:
    table = server.add_table("replay", SIGNATURE)
    address = server.listen("unix:@")
    client = Client(address)
    stream = BatchStream(address, "replay", 4, 0.4)
    view = BatchView(SIGNATURE, **arrays())
    ahead = BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)
    waits: dict[str, Callable[[], object]] = {
        "table": lambda: table.sample_into(view, 0.4),
        "ahead": ahead.next,
        "client": lambda: client.sample_into("replay", view, 0.4),
        "stream": stream.next,
    }

    def interrupt(*_: object) -> None:
        raise Interrupted

    def wait() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        waits[where]()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_a_remote_wait(server: Server) -> None:
    server.add_table("replay", SIGNATURE)
    address = server.listen("unix:@")
    learner, actor = Client(address), Client(address)

    def act() -> None:
        time.sleep(0.02)
        actor.insert("replay", chunk())

    thread = threading.Thread(target=act)
    thread.start()
    assert learner.sample_into("replay", BatchView(SIGNATURE, **arrays()), 0.4)
    thread.join()
