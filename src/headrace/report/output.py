"""Files of a run: written whole or not at all; errors of the operating system name the path."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.errors import StorageError

__all__ = ["cut_torn_line", "while_reading", "while_writing", "write_output"]

_BLOCK_BYTES = 64 << 10


@contextmanager
def while_writing(path: Path) -> Iterator[None]:
    """Raises StorageError, with this path, for an OSError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error


@contextmanager
def while_reading(path: Path) -> Iterator[None]:
    """Raises StorageError, with this path, for an OSError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error


def write_output(path: Path, content: bytes | str) -> None:
    """Replaces a file, also across a power failure, or leaves it as it was and raises StorageError."""
    data = content.encode(errors="replace") if isinstance(content, str) else content
    draft = path.with_name(path.name + ".tmp")
    with while_writing(path):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                with open(draft, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, path)
            except BaseException:  # an interrupt as well
                draft.unlink(missing_ok=True)
                raise
            os.fsync(folder)  # the new name must survive a power failure too
        finally:
            os.close(folder)


def cut_torn_line(path: Path) -> None:
    """Removes an unfinished JSON object at the end of a file: what is appended next would become a part of it."""
    if path.exists():
        with path.open("rb") as file:
            whole = _last_line(file)
            file.seek(whole)
            torn = file.read(1) == b"{"
        if torn:
            os.truncate(path, whole)


def _last_line(file: BinaryIO) -> int:
    """Where the last line begins: the position behind the last newline."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - _BLOCK_BYTES)
        file.seek(begin)
        newline = file.read(end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
