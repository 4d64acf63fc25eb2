"""The bindings of tables and of batches that are prepared ahead."""

import contextlib
import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import errors
from headrace._native import BatchAhead, BatchView, ChunkWriter, Signature, Table

from ..waiting import wait_for
from .conftest import SIGNATURE, STEPS, arrays, chunk


class TestTable:
    def test_gives_back_what_was_inserted(self) -> None:
        table = Table(SIGNATURE, capacity=100)
        assert table.insert(chunk()) == 0
        assert table.insert(memoryview(bytearray(chunk()))) == STEPS
        assert table.size == 2 * STEPS
        assert table.capacity == 100
        assert table.signature == SIGNATURE
        batch = arrays(16)
        assert table.sample_into(BatchView(SIGNATURE, **batch), 0.4)
        step = batch["key"].astype(np.int64) % STEPS
        assert batch["observation"].tolist() == [[i, i] for i in step]
        assert batch["next_observation"].tolist() == [[i + 1, i + 1] for i in step]
        assert batch["action"].tolist() == step.tolist()
        assert batch["reward"].tolist() == (step + 0.5).tolist()
        np.testing.assert_allclose(batch["discount"], np.where(step == STEPS - 1, 0, 0.9), rtol=1e-6)

    def test_an_insert_that_a_save_holds_up_takes_its_deadline_and_ends_when_the_table_is_closed(
        self, tmp_path: Path
    ) -> None:
        """The save stands still: it writes into a pipe without a reader."""
        table = Table(SIGNATURE, capacity=STEPS)
        table.insert(chunk())
        os.mkfifo(tmp_path / "pipe")

        def save() -> None:
            with contextlib.suppress(errors.HeadraceError):  # a pipe can't be flushed
                table.save(str(tmp_path / "pipe"))

        saving = threading.Thread(target=save, daemon=True)
        saving.start()
        wait_for(lambda: table.insert(chunk(), timeout_seconds=0.05) is None)  # until it holds the oldest chunk
        ended = threading.Event()

        def insert() -> None:
            with contextlib.suppress(errors.ClosedError):
                table.insert(chunk())
            ended.set()

        threading.Thread(target=insert, daemon=True).start()
        assert not ended.wait(0.2)
        table.close()
        assert ended.wait(30)
        os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))
        saving.join(30)
        assert not saving.is_alive()

    def test_each_transition_has_the_version_of_the_policy_that_chose_its_action(self) -> None:
        writer = ChunkWriter(SIGNATURE, n_step=3, chunk_steps=4)
        versions = [[5, 5, 6, 7, 7, 8, 9], [9, 12], [2**64 - 1]]  # chunks of 4 and 3 steps, of 2 and of 1
        for episode in versions:
            writer.start(np.zeros(2, np.float32))
            for t, version in enumerate(episode):
                writer.set_policy_version(version)
                writer.append(t, 0.0, np.zeros(2, np.float32), t + 1 == len(episode), False)
        table = Table(SIGNATURE, sampler="uniform")
        assert [table.insert(one) for one in writer.take()] == [0, 4, 7, 9]
        batch = arrays(10)  # one from each tenth of the ten
        assert table.sample_into(BatchView(SIGNATURE, **batch), 0.4)
        assert batch["key"].tolist() == list(range(10))
        assert batch["policy_version"].tolist() == [version for episode in versions for version in episode]

    def test_waits_end_at_their_deadline(self) -> None:
        table = Table(SIGNATURE, samples_per_insert=1, limiter_tolerance=STEPS)
        view = BatchView(SIGNATURE, **arrays())
        assert table.sample_into(view, 0.4, 0.01) is False
        inserted = [table.insert(chunk(), 0.01) for _ in range(6)]
        assert inserted[0] == 0
        assert inserted[-1] is None

    def test_a_wait_ends_when_the_other_side_moves(self) -> None:
        table = Table(SIGNATURE)
        view = BatchView(SIGNATURE, **arrays())
        thread = threading.Thread(target=lambda: table.insert(chunk()))
        thread.start()
        assert table.sample_into(view, 0.4)  # without the GIL, or the thread would never come to its insert
        thread.join()

    def test_updates_priorities(self) -> None:
        table = Table(SIGNATURE)
        table.insert(chunk())
        key = np.array([0, 1, 999], np.uint64)
        assert table.update_priorities(key, np.array([1, 2, 3], np.float32)) == 2
        with pytest.raises(errors.ConfigError, match="key: int64"):
            table.update_priorities(key.astype(np.int64), np.ones(3, np.float32))
        with pytest.raises(errors.ConfigError, match="priority: float64"):
            table.update_priorities(key, np.ones(3))
        with pytest.raises(errors.ConfigError):
            table.update_priorities(key, np.array([1, np.nan, 1], np.float32))
        with pytest.raises(errors.ConfigError):
            table.update_priorities(key, np.ones(2, np.float32))

    def test_a_bad_chunk_is_refused_by_name(self) -> None:
        table = Table(SIGNATURE)
        other = chunk(signature=Signature((3,), "float32"))
        for bad in (b"", b"nonsense", other, chunk()[:-8]):
            with pytest.raises(errors.ChunkRefused):
                table.insert(bad)
        with pytest.raises(errors.ConfigError, match="chunk: a str given"):
            table.insert("text")  # type: ignore[arg-type]
        assert table.size == 0

    def test_refuses_batches_of_another_signature(self) -> None:
        table = Table(SIGNATURE)
        other = Signature((3,), "float32")
        with pytest.raises(errors.ConfigError, match=r"float32\[3\].*float32\[2\]"):
            table.sample_into(BatchView(other, **arrays(4, other)), 0.4)

    @pytest.mark.parametrize("options", [{"sampler": "best"}, {"capacity": 0}, {"priority_exponent": -1.0}])
    def test_refuses_impossible_settings(self, options: dict[str, Any]) -> None:
        with pytest.raises(errors.ConfigError, match=next(iter(options))):
            Table(SIGNATURE, **options)

    def test_everything_is_closed_after_close(self) -> None:
        table = Table(SIGNATURE)
        view = BatchView(SIGNATURE, **arrays())
        closer = threading.Timer(0.05, table.close)
        closer.start()
        with pytest.raises(errors.ClosedError):
            table.sample_into(view, 0.4)
        with pytest.raises(errors.ClosedError):
            table.insert(chunk())
        table.reopen()
        assert table.insert(chunk()) == 0

    def test_system_errors_are_storage_errors(self) -> None:
        with pytest.raises(errors.StorageError, match="/nowhere"):
            Table(SIGNATURE).save("/nowhere/file")

    def test_a_snapshot_of_another_table_is_no_servers_error(self, tmp_path: Path) -> None:
        path = tmp_path / "snapshot"
        Table(SIGNATURE, capacity=10).save(str(path))
        with pytest.raises(errors.ReplayError, match="capacity is 10") as raised:
            Table(SIGNATURE, capacity=20).restore(str(path))
        assert not isinstance(raised.value, errors.CorruptFile)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(errors.CorruptFile, match=str(path)):
            Table(SIGNATURE, capacity=10).restore(str(path))

    def test_stats_are_numbers(self) -> None:
        table = Table(SIGNATURE, capacity=10)
        table.insert(chunk())
        stats = table.stats()
        assert stats["inserts"] == STEPS
        assert stats["capacity"] == 10
        assert all(isinstance(value, float) for value in stats.values())


class TestBatchAhead:
    def test_fills_its_buffers_in_turn(self) -> None:
        table = Table(SIGNATURE)
        memory = [arrays() for _ in range(3)]
        ahead = BatchAhead(table, [BatchView(SIGNATURE, **each) for each in memory], 0.4)
        assert ahead.next(0.0) is None
        table.insert(chunk())
        for _ in range(20):
            index = ahead.next()
            assert index is not None
            assert np.all(memory[index]["probability"] > 0)
            ahead.release(index)
        ahead.close()
        with pytest.raises(errors.ClosedError):
            ahead.next()

    def test_keeps_table_and_buffers_alive(self) -> None:
        def make() -> BatchAhead:
            table = Table(SIGNATURE)
            table.insert(chunk())
            return BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)

        ahead = make()
        gc.collect()
        for _ in range(10):
            index = ahead.next(5.0)
            assert index is not None
            ahead.release(index)

    def test_a_closed_table_ends_it(self) -> None:
        table = Table(SIGNATURE)
        ahead = BatchAhead(table, [BatchView(SIGNATURE, **arrays()) for _ in range(2)], 0.4)
        table.close()
        with pytest.raises(errors.ClosedError):
            ahead.next(5.0)

    def test_refuses_buffers_of_another_signature(self) -> None:
        other = Signature((3,), "float32")
        with pytest.raises(errors.ConfigError):
            BatchAhead(Table(SIGNATURE), [BatchView(other, **arrays(4, other)) for _ in range(2)], 0.4)
