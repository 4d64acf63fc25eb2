"""Where runs are: names of a run's files, free paths for new runs, and paths that results may be written to."""

import os
import re
import shlex
from datetime import datetime
from pathlib import Path

from headrace.errors import CheckpointError, StorageError, require
from headrace.launch.watcher import CHECKPOINTS
from headrace.report.output import while_writing

__all__ = [
    "CONFIG",
    "FOLDERS",
    "LOCK",
    "METRICS",
    "SUMMARY",
    "default_run_directory",
    "make_default_directory",
    "require_output",
    "require_output_folder",
    "require_printable",
    "require_vacant",
]

LOCK = ".lock"
CONFIG, METRICS, SUMMARY = "config.json", "metrics.jsonl", "summary.json"
FOLDERS = ("checkpoints", "logs", "tensorboard")
_DEEPEST = 3
"""Levels of a run's own files below its directory: checkpoints/NAME/FILE."""


def _owner(path: Path) -> Path | None:
    """The directory of the run that writes a file at this path, if there is one."""
    whole = path.resolve()
    for root in whole.parents[:_DEEPEST]:
        own = whole.relative_to(root).parts[0] in (CONFIG, METRICS, SUMMARY, *FOLDERS)
        if own and _is_run(root):
            return root
    return None


def _is_run(path: Path) -> bool:
    """Whether this is the directory of a run."""
    return (path / CONFIG).is_file() and all((path / folder).is_dir() for folder in FOLDERS)


def require_output(field: str, path: Path, suffix: str) -> None:
    """Checks a path before the work whose result is written there.

    Raises ConfigError unless it ends in `suffix` and is no file that a run writes, StorageError if it can't be written.
    """
    require(field, path, path.suffix == suffix, f"a path that ends in {suffix}")
    require(field, path, _owner(path) is None, "another path, since this is a run's own file")
    problem = ""
    if path.is_dir():
        problem = "it is a directory"
    elif not path.parent.is_dir():
        problem = f"{path.parent} is not a directory"
    elif not os.access(path.parent, os.W_OK):
        problem = f"no files may be written in {path.parent}"
    if problem:
        raise StorageError(f"can't write {path}: {problem}")


def require_output_folder(path: Path) -> None:
    """Checks a folder before results are written in it; raises ConfigError for a run's directory and its folders."""
    require("output", path, not _is_run(path) and _owner(path) is None, "another directory, since this is a run's")


def default_run_directory(environment: str, algorithm: str, now: datetime) -> Path:
    """A free path for a new run: runs/LunarLander-v3-dqn-20260102-030405, followed by -2 and so on if it is taken."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", environment)
    path = Path("runs") / f"{name}-{algorithm}-{now:%Y%m%d-%H%M%S}"
    free, again = path, 2
    while free.exists():
        free, again = path.with_name(f"{path.name}-{again}"), again + 1
    return free


def make_default_directory(environment: str, algorithm: str, now: datetime) -> Path:
    """Makes the directory; takes the next name if another process takes the first. Raises StorageError."""
    while True:
        path = default_run_directory(environment, algorithm, now)
        with while_writing(path):
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                if path.is_symlink():  # a broken link, whose name is not free either
                    raise
                continue
        return path


def require_printable(path: Path, what: str = "run directory") -> None:
    """Raises ConfigError for a path that can't be printed, also of a folder above it.

    Native code, which saves tables there, takes paths that can be encoded.
    """
    whole = path.absolute()
    require(what, ascii(str(whole)), str(whole).isprintable(), "a path that can be printed")


def require_vacant(path: Path) -> None:
    """Raises CheckpointError unless a new run may use the directory: there is none, or an empty one."""
    if not path.exists():
        return
    if not path.is_dir():
        raise CheckpointError(f"run directory {path} is a file; choose another --run-dir")
    names = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK)
    if "config.json" in names and not any((path / "checkpoints").glob(CHECKPOINTS)):
        raise CheckpointError(
            f"run directory {path} holds another run, which has no checkpoint; remove it, or choose another --run-dir"
        )
    if "config.json" in names:
        raise CheckpointError(
            f"run directory {path} holds another run; choose another --run-dir, or resume that run by "
            f"headrace resume {shlex.quote(str(path))}"
        )
    if names:
        some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise CheckpointError(f"run directory {path} holds other files ({some}); choose another --run-dir")
