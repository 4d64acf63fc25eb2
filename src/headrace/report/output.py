"""Files that a user names: they are written whole or not at all, and never over a run's own."""

import contextlib
import os
from pathlib import Path

from headrace.errors import StorageError, require
from headrace.report.run_directory import owner

__all__ = ["require_output", "write_output"]


def require_output(field: str, path: Path, suffix: str) -> None:
    """Checks a path before the work whose result is written there.

    Raises ConfigError unless it ends in `suffix` and is no file that a run writes, StorageError if it can't be written.
    """
    require(field, path, path.suffix == suffix, f"a path that ends in {suffix}")
    require(field, path, owner(path) is None, "another path, since this is a run's own file")
    problem = ""
    if path.is_dir():
        problem = "it is a directory"
    elif not path.parent.is_dir():
        problem = f"{path.parent} is not a directory"
    elif not os.access(path.parent, os.W_OK):
        problem = f"no files may be written in {path.parent}"
    if problem:
        raise StorageError(f"can't write {path}: {problem}")


def write_output(path: Path, content: bytes | str) -> None:
    """Replaces a file, or leaves it as it was and raises StorageError."""
    data = content.encode(errors="replace") if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
