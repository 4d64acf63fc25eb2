"""Files that are written whole or not at all."""

import os
from pathlib import Path

from headrace.errors import StorageError

__all__ = ["write_output"]


def write_output(path: Path, content: bytes | str) -> None:
    """Replaces a file, also across a power failure, or leaves it as it was and raises StorageError."""
    data = content.encode(errors="replace") if isinstance(content, str) else content
    draft = path.with_name(path.name + ".tmp")
    try:
        try:
            with open(draft, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the new name must survive a power failure too
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error
