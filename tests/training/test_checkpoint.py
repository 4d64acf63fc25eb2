"""Checkpoints: whole or not at all."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from headrace.errors import CheckpointError, DivergenceError, StorageError
from headrace.replay import Experience, Signature, Table
from headrace.report.run_directory import RunDirectory
from headrace.training import Result
from headrace.training.checkpoint import (
    Checkpoint,
    change_state,
    checkpoint_pause,
    has_checkpoint,
    newest_checkpoint,
    read_newest,
    require_writable,
    save_checkpoint,
)
from headrace.training.run_state import RunState
from headrace.types import EnvironmentSpec

STATE = RunState(
    environment_steps=70,
    learner_steps=5,
    seconds=1.5,
    total_seconds=2.5,
    episodes=2,
    run_id="",
    resumptions=0,
    spec=EnvironmentSpec((2,), "float32", 2),
    acting_processes=1,
    local_actors=True,
    actor_seconds={},
    learner_seconds={},
    totals={},
    evaluations={},
    next_evaluation=10_000.0,
    awaited_episodes=0,
    solved=False,
    target=None,
    program={},
)


def save(folder: Path, value: float = 1.0, updates: int = 5, **changes: Any) -> Path:
    state = replace(STATE, learner_steps=updates, **changes)
    return save_checkpoint(folder, {"weight": np.array([value])}, b"graph", Table(Signature((2,), "float32")), state)


def test_the_newest_is_kept_and_read_back(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    save(tmp_path, 2.0)  # after as many updates as the first: a name is never used again
    checkpoint = newest_checkpoint(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.path.name] == ["000002-updates-5"]
    assert checkpoint.learner()["weight"] == [2.0]
    assert checkpoint.policy() == b"graph"
    assert checkpoint.state.moment == (70, 5, 1.5)


def test_a_state_is_changed_without_writing_the_other_files_again(tmp_path: Path) -> None:
    first = save(tmp_path)
    inode = (first / "learner.safetensors").stat().st_ino
    second = change_state(tmp_path, episodes=99).path
    found = newest_checkpoint(tmp_path)
    assert (found.path, found.state.episodes) == (second, 99)
    assert not first.exists()
    assert (second / "learner.safetensors").stat().st_ino == inode
    assert found.learner().keys()
    assert found.policy()


def test_a_state_is_changed_on_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    save(tmp_path, 3.0)
    monkeypatch.setattr(os, "link", refuse)
    change_state(tmp_path, episodes=99)
    found = newest_checkpoint(tmp_path)
    assert (found.state.episodes, found.learner()["weight"].tolist()) == (99, [3.0])


def test_a_network_that_is_not_finite_is_not_saved(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    with pytest.raises(DivergenceError, match="weight is not finite"):
        save(tmp_path, float("nan"), updates=9)
    assert newest_checkpoint(tmp_path).learner()["weight"] == [1.0]


@pytest.mark.parametrize(
    ("number", "full"), [(errno.EACCES, False), (errno.EROFS, False), (errno.ENOSPC, True), (errno.EDQUOT, True)]
)
def test_a_checkpoint_that_cannot_be_written_asks_for_space_only_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, full: bool
) -> None:
    def refuse(folder: Path, **_: Any) -> None:
        raise OSError(number, os.strerror(number), str(folder))

    save(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refuse)
    for write in (lambda: save(tmp_path), lambda: require_writable(tmp_path)):
        with pytest.raises(StorageError, match=os.strerror(number)) as raised:
            write()
        assert ("space on its disk is required" in str(raised.value)) == full


def test_a_writable_folder_stays_as_it_is(tmp_path: Path) -> None:
    path = save(tmp_path)
    (tmp_path / "writing").mkdir()  # by a process that was killed
    require_writable(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_an_incomplete_checkpoint_is_ignored(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    (tmp_path / "writing").mkdir()
    (tmp_path / "writing" / "manifest.json").write_text("{")
    assert newest_checkpoint(tmp_path).path.name == "000001-updates-5"


@pytest.mark.parametrize(
    ("trained", "saving", "pause"), [(0.0, 0.001, 1.0), (40.0, 0.1, 40.0), (40.0, 2.0, 100.0), (500.0, 0.1, 500.0)]
)
def test_checkpoint_pauses_bound_the_cost_and_the_loss(trained: float, saving: float, pause: float) -> None:
    assert checkpoint_pause(trained, saving) == pause


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CheckpointError, match="holds no checkpoint"):
            newest_checkpoint(folder)


def test_a_folder_that_cannot_be_read_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    save(tmp_path)
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageError, match=f"can't read {tmp_path}: Permission denied"):
        newest_checkpoint(tmp_path)
    assert not has_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["learner.safetensors", "policy.onnx", "replay.headrace"])
def test_a_flipped_bit_is_detected_when_the_file_is_read(tmp_path: Path, name: str) -> None:
    path = save(tmp_path) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    checkpoint = newest_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{name} is broken"):
        {
            "learner.safetensors": checkpoint.learner,
            "policy.onnx": checkpoint.policy,
            "replay.headrace": lambda: checkpoint.restore_replay(Table(Signature((2,), "float32"))),
        }[name]()


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    later = [2.0, 3.0]

    def read(checkpoint: Checkpoint) -> float:
        if later:
            save(tmp_path, later.pop(0))
        checkpoint.policy()
        return float(checkpoint.learner()["weight"][0])

    assert read_newest(tmp_path, read) == 3.0
    (newest_checkpoint(tmp_path).path / "policy.onnx").unlink()
    with pytest.raises(CheckpointError, match=r"policy\.onnx is broken"):  # not read for ever
        read_newest(tmp_path, read)


def read_all(run: RunDirectory, table: Experience) -> None:
    """What resume reads of a checkpoint."""
    checkpoint = newest_checkpoint(run.checkpoints_path)
    checkpoint.learner()
    checkpoint.policy()
    checkpoint.restore_replay(table)


@pytest.mark.parametrize(("name", "bits", "step"), [("manifest.json", 8, 1), ("state.json", 1, 17)])
def test_any_flipped_bit_of_a_real_checkpoint_is_detected(
    train: Callable[..., Result], name: str, bits: int, step: int
) -> None:
    run = train("serial", steps=300, final_evaluation_episodes=0).run
    path = newest_checkpoint(run.checkpoints_path).path / name
    table = Mock()
    read_all(run, table)
    whole = path.read_bytes()
    for index in range(0, len(whole), step):
        for bit in range(bits):
            flipped = bytearray(whole)
            flipped[index] ^= 1 << (index + bit) % 8
            path.write_bytes(flipped)
            with pytest.raises(CheckpointError, match="is broken"):
                read_all(run, table)
    assert table.restore.call_count == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest.pop("policy.onnx"), "policy.onnx"),
        (lambda manifest: manifest.pop("replay.headrace"), "replay.headrace"),
        (lambda manifest: manifest.update(other=[1, 2]), "other"),
        (lambda manifest: manifest.update({"state.json": "x"}), "state.json is 'x'"),
    ],
)
def test_a_manifest_names_every_file_and_no_other(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = save(tmp_path) / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=rf"manifest.json is broken: .*{message}"):
        newest_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("state", "message"),
    [({"seconds": "1"}, "seconds is '1'"), ({"solved": 1}, "solved is 1"), ({"spec": {}}, "spec: observation_shape")],
)
def test_a_state_with_other_fields_is_reported_as_another_versions(
    tmp_path: Path, state: dict[str, Any], message: str
) -> None:
    save(tmp_path, **state)
    with pytest.raises(CheckpointError, match=rf"state.json is from another version: {message}"):
        newest_checkpoint(tmp_path)
