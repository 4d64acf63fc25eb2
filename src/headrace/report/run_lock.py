"""The lock of a run's directory, which also knows where the directory is."""

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from headrace.errors import CheckpointError, StorageError
from headrace.report.output import while_writing
from headrace.report.run_paths import LOCK

__all__ = ["RunLock"]


class RunLock:
    """Only one process at a time has a directory's lock; the kernel releases it when the process ends.

    The lock's file has the id of the process. Raises CheckpointError if another process has the lock, StorageError if
    the system refuses. One thread.
    """

    def __init__(self, path: Path) -> None:
        self._owner = os.getpid()
        with ExitStack() as undo:
            self._lock = _acquire(path)
            undo.callback(os.close, self._lock)
            undo.callback((path / LOCK).unlink, missing_ok=True)
            with while_writing(path / LOCK):
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
                self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.pop_all()

    def is_at(self, path: Path) -> bool:
        """Whether the directory is at this path."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._directory))
        except OSError:
            return False

    def place(self) -> Path | None:
        """The directory's path now, according to the kernel; None if it was removed."""
        place = Path(os.readlink(f"/proc/self/fd/{self._directory}"))
        return place if self.is_at(place) else None

    def close(self) -> None:
        """Releases the lock."""
        with ExitStack() as stack:  # the last one in is called first
            stack.callback(os.close, self._lock)
            if os.getpid() == self._owner:  # a process forked during the run has it open, too
                stack.callback(fcntl.flock, self._lock, fcntl.LOCK_UN)
            stack.callback(os.close, self._directory)


def _acquire(path: Path) -> int:
    """Locks the directory for this process; returns the lock's descriptor."""
    with while_writing(path / LOCK):
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise CheckpointError(
            f"run directory {path} is in use by process {holder or '?'}, which trains into it; wait until it ends, "
            "or choose another --run-dir"
        ) from None
    except OSError as error:
        os.close(lock)
        raise StorageError(
            f"can't lock {path / LOCK}: {error.strerror}; a file system with locks is required"
        ) from error
    return lock
