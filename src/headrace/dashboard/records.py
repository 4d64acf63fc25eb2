"""Reads the records of a run that another process still writes."""

import errno
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["Record", "RecordFollower", "last_records", "open_regular", "read_mapping"]

Record = dict[str, Any]

_PART_BYTES = 4 << 20
_TAIL_BYTES = 64 << 10
_MOST_MAPPING_BYTES = 4 << 20
_KNOWN_BYTES = 256
"""The last bytes that were read, by which a file is known again: a removed one's inode may be that of its successor."""


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading; raises OSError, and never waits, for what is no file: a symbolic link or a FIFO."""
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, _flags: int) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


class RecordFollower:
    """Reads what was appended to metrics.jsonl since the last call. One thread at a time.

    A line is read once it is complete. A file that became shorter, or that another one replaced, is read from its
    beginning. Lines that are not records are counted and left out. Symbolic links are not followed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._known = b""
        self.refused = 0
        """Number of complete lines that are not records."""
        self.behind = False
        """Whether the last call left complete lines for the next one."""

    def read(self) -> tuple[bool, list[Record]]:
        """Returns whether the file begins again, and new records; a missing file has none.

        At most 4 MiB are read; the next call continues.
        """
        self.behind = False
        try:
            file = open_regular(self._path)
        except OSError:
            restarted = self._identity is not None
            self._forget(None)
            return restarted, []
        with file:
            restarted = self._begin_again(file.fileno())
            part = os.pread(file.fileno(), _PART_BYTES, self._offset)
            whole = part.rfind(b"\n") + 1
            if not whole and len(part) < _PART_BYTES:
                return restarted, []
            records, refused = _parse(part[:whole].split(b"\n")[:-1])
            self.refused += refused + (not whole)
            self._offset += whole or len(part)
            self._known = part[: whole or len(part)][-_KNOWN_BYTES:]
            self.behind = len(part) == _PART_BYTES
            return restarted, records

    def _begin_again(self, descriptor: int) -> bool:
        """Starts over if it is another file, or was cut; returns whether there was an earlier one."""
        status = os.fstat(descriptor)
        identity, known = (status.st_dev, status.st_ino), len(self._known)
        if identity == self._identity and os.pread(descriptor, known, self._offset - known) == self._known:
            return False
        restarted = self._identity is not None
        self._forget(identity)
        return restarted

    def _forget(self, identity: tuple[int, int] | None) -> None:
        self._identity, self._offset, self._known, self.refused = identity, 0, b"", 0


def last_records(path: Path, kinds: Iterable[str]) -> dict[str, Record]:
    """The newest record of each kind among the last 64 KiB of metrics.jsonl; kinds that are not there are left out."""
    try:
        with open_regular(path) as file:
            begin = max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES)
            tail = os.pread(file.fileno(), _TAIL_BYTES, begin)
    except OSError:
        return {}
    lines = tail.split(b"\n")[1 if begin else 0 : -1]
    records, _ = _parse(lines)
    return {record["kind"]: record for record in records if record["kind"] in set(kinds)}


def read_mapping(path: Path) -> Record | None:
    """A file with one JSON object, such as config.json; None if there is none that can be read."""
    try:
        with open_regular(path) as file:
            value = _finite(json.loads(file.read(_MOST_MAPPING_BYTES)))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse(lines: Iterable[bytes]) -> tuple[list[Record], int]:
    """The records among the lines, and the number of other lines."""
    records, refused = [], 0
    for line in lines:
        try:
            record = _finite(json.loads(line))
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("kind"), str):
            records.append(record)
        else:
            refused += 1
    return records, refused


def _finite(value: Any) -> Any:
    """The value with null for numbers that browsers or sums can't hold: NaN, infinities and integers of any length."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, int | float) and not -1e308 <= value <= 1e308 else value
