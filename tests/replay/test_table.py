"""The table in this process: inserts up to a deadline, batches, priorities, snapshots."""

import contextlib
import errno
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest

from headrace._native import Server
from headrace.errors import ClosedError, ConfigError, HeadraceError, StorageError
from headrace.replay import BatchBuffer, ChunkWriter, Experience, Signature, Table
from headrace.replay.batches import BatchesAhead

SIGNATURE = Signature((2,), "float32")
STEPS = 8


def chunks(count: int) -> list[bytes]:
    """Chunks of one writer, 8 steps each; rewards are 0, 1, 2 ..."""
    writer = ChunkWriter(SIGNATURE, chunk_steps=STEPS)
    writer.start(np.zeros(2, np.float32))
    for i in range(count * STEPS):
        writer.append(0, float(i), np.zeros(2, np.float32), False, False)
    writer.flush()
    return writer.take()


def test_several_chunks_are_stored_in_order() -> None:
    table = Table(SIGNATURE, capacity=100)
    assert table.insert(*chunks(3)) == 2 * STEPS  # the key of the last one
    assert len(table) == 3 * STEPS
    batch = table.sample(64)
    assert batch is not None
    assert (batch.reward == batch.key).all()


def test_an_insert_stops_at_the_chunk_that_is_blocked() -> None:
    """Inserts go ahead while i - s <= 8, i inserts since the first chunk reached min_size, s samples."""
    table = Table(SIGNATURE, capacity=100, samples_per_insert=1.0, limiter_tolerance=8.0, min_size=STEPS)
    assert table.insert(*chunks(5), timeout_seconds=0.0) is None
    assert len(table) == 3 * STEPS


def test_a_paused_table_takes_nothing_until_it_is_resumed() -> None:
    table = Table(SIGNATURE, capacity=100)
    [chunk] = chunks(1)
    table.set_paused(True)
    assert table.insert(chunk, timeout_seconds=0.0) is None
    with pytest.raises(ConfigError, match="timeout_seconds is nan"):
        table.insert(chunk, timeout_seconds=math.nan)
    table.set_paused(False)
    assert table.insert(chunk, timeout_seconds=0.0) == 0
    table.close()
    with pytest.raises(ClosedError):
        table.insert(chunk)


class Interrupted(Exception):
    """Raised by a signal's handler."""


@contextlib.contextmanager
def interrupted_soon() -> Iterator[None]:
    """A context whose wait is interrupted, as by Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Interrupted):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_call_gives_a_batch_s_memory_back_once() -> None:
    """Twice would let a later batch be overwritten while it is in use."""
    batches = Table(SIGNATURE, capacity=100).batches_ahead(4, 0.4, 3)
    assert isinstance(batches, BatchesAhead)
    batches.close()
    ahead = batches._ahead = Mock(**{"next.side_effect": [0, Interrupted, 1, 2]})
    batches.next()
    with pytest.raises(Interrupted):
        batches.next()
    batches.next()
    batches.next()
    assert ahead.release.call_args_list == [call(0), call(1)]


def test_chunks_of_an_interrupted_append_are_inserted_by_the_next_one() -> None:
    table = Table(SIGNATURE, capacity=1000)
    writer = table.writer(n_step=1, discount=1.0, chunk_steps=STEPS, actor=0)
    writer.start(np.zeros(2, np.float32))
    table.set_paused(True)
    with interrupted_soon():
        for _ in range(2 * STEPS):
            writer.append(0, 0.0, np.zeros(2, np.float32), False, False)
    table.set_paused(False)
    writer.flush()
    assert len(table) == STEPS


def test_a_snapshot_replaces_no_file_of_a_table(tmp_path: Path) -> None:
    table = Table(SIGNATURE, capacity=100, path=tmp_path / "arena")
    table.insert(*chunks(1))
    before = (tmp_path / "arena").read_bytes()
    for each in (table, Table(SIGNATURE, capacity=100)):
        with pytest.raises(StorageError, match=r"arena: a table or another snapshot uses that file"):
            each.save(tmp_path / "arena")
    assert (tmp_path / "arena").read_bytes() == before
    with pytest.raises(StorageError, match="it is not a file"):
        table.save(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["arena"]


def test_a_snapshot_s_draft_replaces_no_file_of_a_table_or_of_another_snapshot(tmp_path: Path) -> None:
    draft = tmp_path / "snapshot.tmp"
    other = Table(SIGNATURE, capacity=100, path=draft)
    other.insert(*chunks(1))
    before = draft.read_bytes()
    table = Table(SIGNATURE, capacity=100)
    with pytest.raises(StorageError, match=r"snapshot\.tmp: a table or another snapshot uses that file"):
        table.save(tmp_path / "snapshot")
    assert draft.read_bytes() == before
    draft.rename(tmp_path / "arena")
    draft.write_text("what a killed process left")
    table.save(tmp_path / "snapshot")
    assert {each.name for each in tmp_path.iterdir()} == {"arena", "snapshot"}
    Table(SIGNATURE, capacity=100).restore(tmp_path / "snapshot")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ConfigError, "path is '.'; it must be that of a file, UTF-8 without a null character"),
        ("a\0b", ConfigError, "path is 'a.x00b'; it must be that of a file, UTF-8 without a null character"),
        ("x" * 253, StorageError, "File name too long|can't"),
        ("/dev/null/x", StorageError, "Not a directory"),
    ],
)
def test_a_path_that_can_hold_no_snapshot_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[HeadraceError], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        Table(SIGNATURE, capacity=100).save(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["capacity", "capacity_bytes", "min_size", "seed"])
@pytest.mark.parametrize("value", [-1, 1.5, None, 2**64])
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value}; it must be a whole number, not below 0"):
        Table(SIGNATURE, **{name: value})


@pytest.mark.parametrize("name", ["a\0b", "\udcff"])
def test_a_path_that_native_code_can_not_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="it must be UTF-8 without a null character"):
        Table(SIGNATURE, capacity=100, path=f"{tmp_path}/{name}")
    table = Table(SIGNATURE, capacity=100)
    table.save(tmp_path / "a")
    with pytest.raises(ConfigError, match="it must be UTF-8 without a null character"):
        table.restore(f"{tmp_path}/{name}")
    with pytest.raises(ConfigError, match="it must be that of a file, UTF-8 without a null character"):
        table.save(f"{tmp_path}/{name}")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_no_chunks_are_inserted_at_once() -> None:
    assert Table(SIGNATURE, capacity=100).insert() == 0


def test_a_snapshot_that_fails_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(SIGNATURE, capacity=100)
    table.save(tmp_path / "snapshot")
    before = (tmp_path / "snapshot").read_bytes()
    table.insert(*chunks(1))

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StorageError, match="No space left"):
            table.save(tmp_path / "snapshot")
    assert (tmp_path / "snapshot").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
    table.save(tmp_path / "snapshot")
    restored = Table(SIGNATURE, capacity=100)
    restored.restore(tmp_path / "snapshot")
    assert len(restored) == STEPS


def test_batches_are_ready_ahead() -> None:
    table = Table(SIGNATURE, capacity=100)
    table.insert(*chunks(1))
    batches = table.batches_ahead(4, 0.4, 3)
    for _ in range(10):
        batch = batches.next(10.0)
        assert batch is not None
        assert (batch.reward == batch.key).all()
    batches.close()


def test_priorities_may_be_signed() -> None:
    table = Table(SIGNATURE, capacity=100, priority_exponent=1.0)
    table.insert(*chunks(1))
    assert table.update_priorities(np.arange(8, dtype=np.uint64), np.array([-3, 1, 0, 0, 0, 0, 0, 0])) == 8
    batch = table.sample(400)
    assert batch is not None
    assert (batch.key == 0).sum() == pytest.approx(300, abs=2)  # stratified


def test_a_table_of_a_server_is_the_same_table(tmp_path: Path) -> None:
    server = Server()
    native = server.add_table("replay", SIGNATURE, capacity=100)
    table = Table.of(native)
    assert table.signature == SIGNATURE
    table.insert(*chunks(2))
    assert native.size == len(table) == 2 * STEPS
    table.save(tmp_path / "snapshot")
    empty = Table(SIGNATURE, capacity=100)
    empty.restore(tmp_path / "snapshot")
    ours, theirs = BatchBuffer(SIGNATURE, 16), BatchBuffer(SIGNATURE, 16)
    assert table.sample_into(ours, 0.4, 0.0)
    assert empty.sample_into(theirs, 0.4, 0.0)
    np.testing.assert_array_equal(ours.arrays.key, theirs.arrays.key)
    server.close()


def test_an_algorithm_without_replay_has_no_experience(tmp_path: Path) -> None:
    experience = Experience()
    experience.set_paused(True)
    experience.save(tmp_path / "snapshot")
    experience.close()
    assert experience.stats() == {"samples_per_insert": 1.0, "size": 0, "capacity": 0, "used_bytes": 0}
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_text_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not None, of which a file "None" would be made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="NoneType"):
        Table(SIGNATURE, capacity=100, path=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="NoneType"):
        Table(SIGNATURE, capacity=100).save(None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
