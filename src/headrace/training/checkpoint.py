"""Checkpoints: network, target, optimizer, replay with its priorities, counters and random states.

A checkpoint is a directory that appears under its name only when it is whole: it is written beside it, flushed to
the disk, and renamed. `manifest.json` holds each file's size and CRC-32. The newest is kept, older ones go.
"""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace._native import Table
from headrace.errors import CheckpointError, StorageError
from headrace.training.evaluation import Moment

__all__ = ["Checkpoint", "newest_checkpoint", "save_checkpoint"]

_LEARNER, _REPLAY, _STATE, _POLICY, _MANIFEST = (
    "learner.safetensors",
    "replay.headrace",
    "state.json",
    "policy.onnx",
    "manifest.json",
)
_BLOCK = 1 << 22


class Checkpoint(NamedTuple):
    """A whole checkpoint on disk."""

    path: Path
    state: dict[str, Any]
    """Counters, clock, random states and the program's own."""

    @property
    def moment(self) -> Moment:
        """Where in training it was taken."""
        state = self.state
        return Moment(state["environment_steps"], state["learner_steps"], state["seconds"])

    def tensors(self) -> dict[str, Tensor]:
        """The updater's state."""
        try:
            return dict(load_file(self.path / _LEARNER))
        except (SafetensorError, OSError) as error:
            raise _broken(self.path / _LEARNER, str(error)) from error

    def policy(self) -> bytes:
        """The policy as an ONNX graph."""
        return (self.path / _POLICY).read_bytes()

    def restore_replay(self, table: Table) -> None:
        """Fills an empty table; raises CorruptFile."""
        table.restore(str(self.path / _REPLAY))


def save_checkpoint(
    folder: Path, tensors: dict[str, Tensor], policy: bytes, table: Table, state: dict[str, Any]
) -> Path:
    """Writes a checkpoint named after its updates and removes older ones; raises StorageError, leaving these alone."""
    final = folder / f"updates-{state['learner_steps']:09d}-{state['environment_steps']:012d}"
    draft = folder / "writing"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, draft / _LEARNER)
        table.save(str(draft / _REPLAY))
        (draft / _POLICY).write_bytes(policy)
        (draft / _STATE).write_text(json.dumps(state))
        names = (_LEARNER, _REPLAY, _POLICY, _STATE)
        (draft / _MANIFEST).write_text(json.dumps({name: _fingerprint(draft / name) for name in names}))
        for name in (*names, _MANIFEST):
            _flush(draft / name)
        _flush(draft)
        shutil.rmtree(final, ignore_errors=True)
        draft.rename(final)
        _flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise StorageError(
            f"can't write checkpoint {final}: {error}; free some space or choose another disk"
        ) from error
    except StorageError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    for old in folder.glob("updates-*"):
        if old != final:
            shutil.rmtree(old, ignore_errors=True)
    return final


def newest_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint, every file checked; raises CheckpointError where there is none or it is broken."""
    found = sorted(folder.glob("updates-*"))
    if not found:
        raise CheckpointError(f"{folder} holds no checkpoint; the run ended before its first")
    path = found[-1]
    try:
        manifest = json.loads((path / _MANIFEST).read_text())
        for name, fingerprint in manifest.items():
            if _fingerprint(path / name) != fingerprint:
                raise _broken(path / name, "its bytes are not those that were written")
        return Checkpoint(path, json.loads((path / _STATE).read_text()))
    except OSError as error:
        raise _broken(Path(error.filename or path), error.strerror or str(error)) from error
    except (ValueError, AttributeError) as error:
        raise _broken(path / _MANIFEST, str(error)) from error


def _broken(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"checkpoint file {path} is broken: {reason}; a whole checkpoint is required to go on")


def _fingerprint(path: Path) -> list[int]:
    """Size and CRC-32."""
    checksum = size = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
            size += len(block)
    return [size, checksum]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
