"""A table in this process."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace._native import Table as NativeTable
from headrace.errors import StorageError, require
from headrace.replay.base import ReplayTable
from headrace.replay.batches import Allocate, BatchBuffer, Batches, BatchesAhead

__all__ = ["Table"]

_MOST = 1 << 64
_PATH = "UTF-8 without a null character"


@contextlib.contextmanager
def _locked(path: Path, *, create: bool = False) -> Iterator[None]:
    """A context for replacing a file, which is locked if there is one; `create` makes it.

    Raises StorageError if a table or another snapshot has locked it, or if it is no file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    except OSError:  # there is none, or it can't be written either
        yield
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StorageError(f"can't write snapshot {path}: it is not a file")
        in_use = f"can't write snapshot {path}: a table or another snapshot uses that file"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(in_use) from None
        except OSError:  # a file system without locks
            pass
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                yield
                return
        raise StorageError(in_use)  # by another snapshot, which has replaced or removed it meanwhile
    finally:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process forked meanwhile has it open, too
        os.close(descriptor)


def _is_path(path: str | Path) -> bool:
    """Whether it is a text that native code takes for a path: UTF-8 without null characters."""
    try:
        return b"\0" not in os.fspath(path).encode()
    except UnicodeEncodeError:
        return False


class Table(ReplayTable):
    """Experience with prioritized or uniform sampling, in this process.

    Sampling is stratified over priority ** priority_exponent (Schaul et al. 2016) and seeded: the same seed and calls
    give the same samples. `capacity` counts transitions; `capacity_bytes` limits the memory (0: as much as the capacity
    requires); the oldest transitions are removed first. `samples_per_insert` above 0 blocks the side that is ahead by
    more than `limiter_tolerance` samples (0: a tolerance from the sizes of batches and chunks). `path` stores the
    experience in a memory-mapped file, from which the next table with this path loads it. Raises ConfigError.
    """

    def __init__(
        self,
        signature: Signature,
        *,
        capacity: int = 1_000_000,
        capacity_bytes: int = 0,
        sampler: str = "prioritized",
        priority_exponent: float = 0.6,
        samples_per_insert: float = 0.0,
        limiter_tolerance: float = 0.0,
        min_size: int = 1,
        seed: int = 0,
        path: str | Path = "",
    ) -> None:
        counts = {"capacity": capacity, "capacity_bytes": capacity_bytes, "min_size": min_size, "seed": seed}
        for name, value in counts.items():
            whole = isinstance(value, int | np.integer) and 0 <= value < _MOST
            require(name, f"{value!r:.60}", whole, "a whole number, not below 0, with 64 bits at most")
        require("path", f"{path!r:.60}", _is_path(path), _PATH)
        self.signature = signature
        self.native = NativeTable(
            signature,
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            sampler=sampler,
            priority_exponent=priority_exponent,
            samples_per_insert=samples_per_insert,
            limiter_tolerance=limiter_tolerance,
            min_size=min_size,
            seed=seed,
            path=os.fspath(path),
        )

    @staticmethod
    def of(native: NativeTable) -> "Table":
        """A table that exists, such as one of a server in this process."""
        table = Table.__new__(Table)
        table.signature, table.native = native.signature, native
        return table

    def __len__(self) -> int:
        """Number of stored transitions."""
        return self.native.size

    def insert(self, *chunks: bytes | bytearray, timeout_seconds: float | None = None) -> int | None:
        """Stores chunks; see `ReplayTable`. Stops at a chunk that is blocked until its deadline and returns None."""
        key: int | None = 0
        for chunk in chunks:
            if (key := self.native.insert(chunk, timeout_seconds)) is None:
                break
        return key

    def sample_into(
        self, buffer: BatchBuffer, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool:
        """Samples into reused arrays; returns False at the deadline."""
        return self.native.sample_into(buffer.view, importance_exponent, timeout_seconds)

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> Batches:
        """Keeps `count` batches, 2 or more, ready in buffers of this process, filled by a native thread."""
        require("count", count, count >= 2, "2 or more: one that is read and one that is filled")
        return BatchesAhead(self.native, batch_size, importance_exponent, count, allocate)

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.floating[Any]]) -> int:
        """Sets priorities to |priority| [B]; see `ReplayTable`."""
        return self.native.update_priorities(key, np.abs(priority, dtype=np.float32))

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes inserts only."""
        self.native.set_paused(paused)

    def save(self, path: str | Path) -> None:
        """Writes a snapshot: experience, priorities, counters, random state.

        Replaces a former one whole; it is written to `path` with ".tmp" appended first. Raises StorageError, also where
        either is the file of an open table.
        """
        path = Path(path)
        require("path", f"{os.fspath(path)!r:.60}", path.name != "" and _is_path(path), f"that of a file, {_PATH}")
        draft = path.with_name(f"{path.name}.tmp")
        with _locked(path), _locked(draft, create=True):
            try:
                self.native.save(os.fspath(draft))
                os.replace(draft, path)
            except BaseException as error:
                with contextlib.suppress(OSError):  # it isn't there, or its name is none
                    draft.unlink()
                if isinstance(error, OSError):
                    raise StorageError(f"can't write snapshot {path}: {error.strerror}") from error
                raise

    def restore(self, path: str | Path) -> None:
        """Loads a snapshot into an empty table.

        Raises CorruptFile, or ReplayError for a snapshot of another signature or capacity.
        """
        require("path", f"{path!r:.60}", _is_path(path), _PATH)
        self.native.restore(os.fspath(path))

    def stats(self) -> dict[str, float]:
        """Counts, bytes, samples per insert, seconds that each side was blocked."""
        return self.native.stats()

    def close(self) -> None:
        """Wakes all waiting callers; later inserts and samples raise ClosedError. The file is free with the object."""
        self.native.close()
