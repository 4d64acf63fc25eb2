"""Checkpoints: whole or not at all."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headrace._native import Signature, Table
from headrace.errors import CheckpointError, DivergenceError
from headrace.training.checkpoint import newest_checkpoint, save_checkpoint


def save(folder: Path, value: float = 1.0, updates: int = 5) -> Path:
    state: dict[str, Any] = {"environment_steps": 70, "learner_steps": updates, "seconds": 1.5}
    return save_checkpoint(
        folder, {"weight": torch.tensor([value])}, b"graph", Table(Signature((2,), "float32")), state
    )


def test_the_newest_is_kept_and_read_back(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    save(tmp_path, 2.0)  # after as many updates as the first: a name is never used again
    checkpoint = newest_checkpoint(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.path.name] == ["000002-updates-5"]
    assert checkpoint.tensors()["weight"] == torch.tensor([2.0])
    assert checkpoint.policy() == b"graph"
    assert checkpoint.moment == (70, 5, 1.5)


def test_a_network_that_is_not_finite_does_not_replace_one_that_is(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    with pytest.raises(DivergenceError, match="weight is not finite"):
        save(tmp_path, float("nan"), updates=9)
    assert newest_checkpoint(tmp_path).tensors()["weight"] == torch.tensor([1.0])


def test_half_a_checkpoint_is_none(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    (tmp_path / "writing").mkdir()
    (tmp_path / "writing" / "manifest.json").write_text("{")
    assert newest_checkpoint(tmp_path).path.name == "000001-updates-5"


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        newest_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["learner.safetensors", "policy.onnx", "replay.headrace"])
def test_a_flipped_bit_is_found_when_the_file_is_read(tmp_path: Path, name: str) -> None:
    path = save(tmp_path) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    checkpoint = newest_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{name} is broken"):
        {
            "learner.safetensors": checkpoint.tensors,
            "policy.onnx": checkpoint.policy,
            "replay.headrace": lambda: checkpoint.restore_replay(Table(Signature((2,), "float32"))),
        }[name]()
