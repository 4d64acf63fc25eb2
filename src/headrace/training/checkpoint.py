"""Checkpoints: network, target, optimizer, counters, random states, and replay with its priorities.

The replay is omitted if the run's server stores it.

A checkpoint is a directory that appears under its name only when it is complete: it is written under a temporary name
in the same directory, flushed to disk, and renamed. Numbers increase, so no name is reused. `manifest.json` contains
each file's size and CRC-32, which are checked when the file is read. The newest checkpoint is kept, older ones are
removed.
"""

import dataclasses
import errno
import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from headrace.errors import CheckpointError, ConfigError, DivergenceError, StorageError
from headrace.fields import fits, read_fields, read_object, write_json
from headrace.launch.watcher import CHECKPOINTS
from headrace.replay import Experience
from headrace.settings import RunConfig
from headrace.topologies.config import Topology
from headrace.training.run_state import RunState
from headrace.types import Array

__all__ = [
    "Checkpoint",
    "change_state",
    "checkpoint_pause",
    "has_checkpoint",
    "newest_checkpoint",
    "read_newest",
    "require_writable",
    "save_checkpoint",
]

T = TypeVar("T")
_LEARNER, _REPLAY, _STATE, _POLICY, _MANIFEST = (
    "learner.safetensors",
    "replay.headrace",
    "state.json",
    "policy.onnx",
    "manifest.json",
)
_DRAFT = "writing"
_BLOCK = 1 << 22
_SHORTEST_PAUSE_SECONDS = 1.0
_SAVING_SHARE = 0.02
"""Share of a run's time spent on its first checkpoints; `checkpoint_period_seconds` limits the pauses after others."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk; methods that read a file raise CheckpointError if the file is broken."""

    path: Path
    manifest: dict[str, list[int]]
    state: RunState

    def topology(self, config: RunConfig) -> Topology:
        """The run's topology, with as many workers as it had where the settings leave that to the machine."""
        return config.topology.resumed(self.state.acting_processes)

    def learner(self) -> dict[str, Array]:
        """The updater's state."""
        path = self._checked(_LEARNER)
        try:
            return dict(load_file(path))
        except (SafetensorError, OSError) as error:
            raise _broken(path, str(error)) from error

    def policy(self) -> bytes:
        """The policy as an ONNX graph."""
        return _read(self._checked(_POLICY))

    def restore_replay(self, table: Experience) -> None:
        """Fills an empty table."""
        table.restore(self._checked(_REPLAY))

    def _checked(self, name: str) -> Path:
        if name not in self.manifest:
            raise _broken(self.path / _MANIFEST, f"{name} is missing in it")
        _check(self.path / name, self.manifest[name])
        return self.path / name


def checkpoint_pause(trained_seconds: float, saving_seconds: float) -> float:
    """Seconds until the next checkpoint after one that took `saving_seconds`.

    The pause equals the training time so far, so a killed run loses at most half of it. It is longer if saving is slow.
    """
    return max(trained_seconds, saving_seconds / _SAVING_SHARE, _SHORTEST_PAUSE_SECONDS)


def save_checkpoint(
    folder: Path, learner: dict[str, Array], policy: bytes, table: Experience | None, state: RunState
) -> Path:
    """Writes a checkpoint, without the replay if `table` is None, and removes older checkpoints.

    Raises StorageError, or DivergenceError if a number is not finite; older checkpoints are then kept.
    """
    for name, values in learner.items():
        if not np.isfinite(values).all():
            raise DivergenceError(f"training diverged: {name} is not finite; the last checkpoint before is kept")

    def fill(draft: Path) -> None:
        save_file(learner, draft / _LEARNER)
        if table is not None:
            table.save(draft / _REPLAY)
        (draft / _POLICY).write_bytes(policy)
        (draft / _STATE).write_text(write_json(state))

    names = (_LEARNER, *([] if table is None else [_REPLAY]), _POLICY, _STATE)
    return _write(folder, state.learner_steps, names, fill)


def change_state(folder: Path, **changes: Any) -> Checkpoint:
    """Replaces the newest checkpoint by one whose state has other values of these fields, and returns that.

    Raises StorageError, and CheckpointError if there is none, or a broken one.
    """
    newest = newest_checkpoint(folder)
    state = dataclasses.replace(newest.state, **changes)
    linked = {name: fingerprint for name, fingerprint in newest.manifest.items() if name != _STATE}

    def fill(draft: Path) -> None:
        for name in linked:
            try:
                os.link(newest.path / name, draft / name)
            except OSError:  # a file system without hard links
                shutil.copyfile(newest.path / name, draft / name)
        (draft / _STATE).write_text(write_json(state))

    return newest._replace(path=_write(folder, state.learner_steps, tuple(newest.manifest), fill, linked), state=state)


def _write(
    folder: Path,
    updates: int,
    names: tuple[str, ...],
    fill: Callable[[Path], object],
    known: Mapping[str, list[int]] = MappingProxyType({}),
) -> Path:
    """Makes a checkpoint of the files `names`, which `fill` writes into a directory, and removes older ones.

    `known` has the fingerprints of files that need not be read again.
    """
    before = _checkpoints(folder)
    number = int(before[-1].name.split("-")[0]) + 1 if before else 1
    final = folder / f"{number:06d}-updates-{updates}"
    draft = folder / _DRAFT
    try:
        shutil.rmtree(draft, ignore_errors=True)
        folder.mkdir(exist_ok=True)  # not its parent, which may have been renamed
        draft.mkdir()
        fill(draft)
        (draft / _MANIFEST).write_text(
            json.dumps({name: known.get(name) or _fingerprint(draft / name) for name in names})
        )
        for name in (*names, _MANIFEST):
            _flush(draft / name)
        _flush(draft)
        draft.rename(final)
        _flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise _unwritten(f"checkpoint {final}", error) from error
    except StorageError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    for old in before:
        shutil.rmtree(old, ignore_errors=True)
    return final


def require_writable(folder: Path) -> None:
    """Raises StorageError if the folder takes no checkpoint; what a killed process had begun to write is removed."""
    draft = folder / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        draft.rmdir()
    except OSError as error:
        raise _unwritten(str(folder), error) from error


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint to resume from."""
    try:
        return bool(_checkpoints(folder))
    except StorageError:
        return False


def newest_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint; raises CheckpointError if there is none or its manifest or state is broken.

    Raises StorageError if the folder can't be read.
    """
    found = _checkpoints(folder)
    if not found:
        raise CheckpointError(f"{folder} holds no checkpoint: there is none yet, or the run ended before its first")
    path = found[-1]
    manifest = _read_manifest(path)
    _check(path / _STATE, manifest[_STATE])
    try:
        state = read_object(_read(path / _STATE), "the state")
        return Checkpoint(path, manifest, read_fields(RunState, state))
    except ConfigError as error:
        raise CheckpointError(
            f"checkpoint file {path / _STATE} is from another version: {error}; resume with the version that wrote it"
        ) from error


def read_newest(folder: Path, read: Callable[[Checkpoint], T]) -> T:
    """Reads the newest checkpoint of a run that may be writing, which removes what it replaces; raises as `read`."""
    while True:
        found = _checkpoints(folder)
        try:
            return read(newest_checkpoint(folder))
        except CheckpointError:
            if _checkpoints(folder) == found:
                raise


def _read_manifest(path: Path) -> dict[str, list[int]]:
    """Each file's size and CRC-32; raises CheckpointError for anything that save_checkpoint() does not write."""
    text = _read(path / _MANIFEST)
    try:
        manifest = read_object(text, "the manifest")
    except ConfigError as error:
        raise _broken(path / _MANIFEST, str(error)) from error
    names = (_LEARNER, *([_REPLAY] if (path / _REPLAY).exists() or _REPLAY in manifest else []), _POLICY, _STATE)
    if tuple(manifest) != names:
        raise _broken(path / _MANIFEST, f"it names {list(manifest)}; {list(names)} is required")
    for name, fingerprint in manifest.items():
        if not fits(tuple[int, ...], tuple(fingerprint) if isinstance(fingerprint, list) else None):
            raise _broken(path / _MANIFEST, f"{name} is {fingerprint!r:.60}; a size and a checksum are required")
    if json.dumps(manifest).encode() != text:  # for example a duplicate key, one of which is lost
        raise _broken(path / _MANIFEST, "it is not as it was written")
    return manifest


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from error


def _checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first; raises StorageError if the folder can't be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.match(CHECKPOINTS))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"can't read {folder}: {error.strerror}; a readable directory is required") from error


def _check(path: Path, fingerprint: list[int]) -> None:
    try:
        found = _fingerprint(path)
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from error
    if found != fingerprint:
        raise _broken(path, "its size or checksum is not that of the manifest")


def _broken(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"checkpoint file {path} is broken: {reason}; an intact checkpoint is required")


def _unwritten(what: str, error: OSError | SafetensorError) -> StorageError:
    if not isinstance(error, OSError):
        return StorageError(f"can't write {what}: {error}")
    required = "space on its disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "a writable directory"
    return StorageError(f"can't write {what}: {error.strerror or error}; {required} is required")


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
