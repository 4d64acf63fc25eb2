"""CSV files in which every row names its origin."""

import csv
import io
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.machine import available_cores, processor_name
from headrace.report.output import while_writing, write_output

__all__ = ["Origin", "make_folder", "write_csv", "write_rows"]

_FOLDER = Path(__file__).parent
_SOURCES = (":/src", ":/native", ":/benchmarks/*.py")
"""Paths that a figure depends on, relative to the top of the repository."""


@dataclass(frozen=True)
class Origin:
    """Command, commit, date and machine of a figure."""

    command: str
    commit: str
    date: str
    machine: str
    cores: int

    @staticmethod
    def of(row: Mapping[str, Any]) -> "Origin":
        """The origin of a row."""
        return Origin(**{field.name: row[field.name] for field in fields(Origin)})

    @staticmethod
    def here(command: str, folder: Path = _FOLDER) -> "Origin":
        """The origin of a figure measured here and now; the commit has a + if the sources differ from it."""
        now = datetime.now(UTC).isoformat(" ", "minutes")
        return Origin(
            command, _commit(folder) or f"version {version('headrace')}", now, processor_name(), available_cores()
        )


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], origin: Origin) -> None:
    """Writes rows with the same keys, each with its origin; without rows no file. Raises StorageError."""
    source = asdict(origin)
    write_rows(path, [dict(row) | source for row in rows])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows with the same keys atomically; without rows no file. Raises StorageError."""
    if not rows:
        with while_writing(path):
            path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    write_output(path, text.getvalue())


def make_folder(path: Path) -> None:
    """Creates a folder and its parents if they are missing; raises StorageError."""
    with while_writing(path):
        path.mkdir(parents=True, exist_ok=True)


def _short(value: object) -> object:
    """A number with five significant digits, since more would be noise; empty for a missing value."""
    return float(f"{value:.5g}") if isinstance(value, float) else "" if value is None else value


def _commit(folder: Path) -> str:
    """The commit of the sources; empty if they are not in a repository."""
    try:
        _git(folder, "ls-files", "--error-unmatch", ".")  # otherwise Headrace is installed inside a user's repository
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", *_SOURCES) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
