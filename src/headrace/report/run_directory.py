"""The directory of a run: settings, records, checkpoints, logs and, at the end, the summary."""

import contextlib
import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from headrace.errors import CheckpointError, HeadraceError, LaunchError, StorageError
from headrace.report.events import EventFile
from headrace.report.output import cut_torn_line, while_reading, while_writing, write_output
from headrace.report.run_lock import RunLock
from headrace.report.run_paths import (
    CONFIG,
    FOLDERS,
    LOCK,
    METRICS,
    SUMMARY,
    make_default_directory,
    require_printable,
    require_vacant,
)
from headrace.settings import RunConfig

__all__ = ["RecordSink", "RunDirectory"]


class RecordSink(Protocol):
    """Takes a run's records as they are written. Called by the thread that writes them."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Takes a record, whose numbers are finite and Python's."""

    def close(self) -> None:
        """Releases what the sink holds; called once."""


class RunDirectory:
    """A run's directory, made by create() or opened by open().

    The writing process has the directory's lock; other processes may read meanwhile. Not thread-safe. Raises
    StorageError, which names the path, if the system refuses to write or if the directory is no longer at its path.
    """

    def __init__(self, path: Path, lock: RunLock | None, *, made: bool = False) -> None:
        """`made`: the directory did not exist before the run."""
        self.path = path.absolute()  # an environment may change the working directory
        self.shown = path
        """The path as it was given, for messages."""
        self._lock = lock
        self._metrics: int | None = None
        self._events: EventFile | None = None
        self._sinks: list[RecordSink] = []
        self._made = made

    @classmethod
    def create(cls, path: Path, config_json: str) -> Self:
        """Makes the directory of a new run and locks it; raises CheckpointError if the path is not empty."""
        with while_writing(path):
            made = not path.exists()
        return cls._create(path, config_json, made=made)

    @classmethod
    def _create(cls, path: Path, config_json: str, *, made: bool) -> Self:
        require_printable(path)
        with while_writing(path):
            require_vacant(path)
            path.mkdir(parents=True, exist_ok=True)
        try:
            lock = RunLock(path)
        except StorageError:
            if made:
                with contextlib.suppress(OSError):  # it has files of others meanwhile
                    path.rmdir()
            raise
        run = cls(path, lock, made=made)
        with ExitStack() as undo:
            undo.callback(run.close)
            require_vacant(path)  # another process may have made it first, and have ended
            undo.callback(run.discard_unused)
            with while_writing(path):
                for folder in FOLDERS:
                    (path / folder).mkdir(exist_ok=True)
            write_output(run.config_path, config_json)
            undo.pop_all()
        return run

    @classmethod
    def create_default(cls, environment: str, algorithm: str, now: datetime, config_json: str) -> Self:
        """Like create(), with a default name; takes the next name if another process takes the first."""
        return cls._create(make_default_directory(environment, algorithm, now), config_json, made=True)

    @classmethod
    def create_for(cls, config: RunConfig, path: Path | None) -> Self:
        """The directory of a new run at this path; None: with a default name."""
        if path is not None:
            return cls.create(path, config.to_json())
        return cls.create_default(config.environment, config.algorithm.name, datetime.now(), config.to_json())

    @classmethod
    def open(cls, path: Path, *, writing: bool = False) -> Self:
        """Opens the directory of an existing run; `writing` locks it and removes a record that a crash cut short."""
        with while_reading(path):
            if not path.is_dir():
                found = "it is a file" if path.exists() else "there is no such directory"
                raise CheckpointError(f"{path} is not a run directory: {found}")
            if not (path / CONFIG).is_file():
                raise CheckpointError(f"{path} is not a run directory: it holds no config.json")
        if writing:
            require_printable(path)
        run = cls(path, RunLock(path) if writing else None)
        if writing:
            with while_writing(run.metrics_path):
                cut_torn_line(run.metrics_path)
        return run

    @property
    def config_path(self) -> Path:
        """Settings of the run; a resumption may replace the stopping rules."""
        return self.path / CONFIG

    @property
    def metrics_path(self) -> Path:
        """The run's records, one JSON object per line."""
        return self.path / METRICS

    @property
    def summary_path(self) -> Path:
        """The run's summary, written when it stops."""
        return self.path / SUMMARY

    @property
    def checkpoints_path(self) -> Path:
        """Folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def logs_path(self) -> Path:
        """Folder of the output of the run's processes."""
        return self.path / "logs"

    @property
    def tensorboard_path(self) -> Path:
        """Folder of TensorBoard events."""
        return self.path / "tensorboard"

    def displacement(self) -> StorageError | None:
        """The error that ends a run if its directory was renamed or removed; None if it is in its place."""
        if self._lock is None or self._lock.is_at(self.path):
            return None
        place = self._lock.place()
        if place is None:
            return StorageError(f"run directory {self.shown} was removed during the run; nothing more can be saved")
        return StorageError(
            f"run directory {self.shown} was renamed to {place} during the run, which ends; what was learned is saved "
            f"there: headrace resume {shlex.quote(str(place))}"
        )

    def follow(self) -> bool:
        """Sets `path` to the directory's new name; returns whether the directory still exists."""
        place = self._lock.place() if self._lock else None
        if place is not None:
            self.path = self.shown = place
        return place is not None

    def require_place(self) -> None:
        """Raises the error of displacement(), if there is one."""
        displaced = self.displacement()
        if displaced is not None:
            raise displaced

    def add_sink(self, sink: RecordSink) -> None:
        """Sends later records to a sink too, which is closed with the directory."""
        self._sinks.append(sink)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds a record, which must have a "kind", to metrics.jsonl, and its numbers to TensorBoard's events."""
        self._require_lock()
        self.require_place()
        plain = _plain(record)
        with while_writing(self.metrics_path):
            if self._metrics is None:
                self._metrics = os.open(self.metrics_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            line = json.dumps(plain, allow_nan=False).encode() + b"\n"
            while line:
                line = line[os.write(self._metrics, line) :]
        with while_writing(self.tensorboard_path):
            self._events = self._events or EventFile(self.tensorboard_path)
            self._events.append(plain)
        for sink in self._sinks:
            sink.append(plain)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replaces summary.json atomically."""
        self._require_lock()
        self.require_place()
        write_output(self.summary_path, json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n")

    def read_config(self) -> RunConfig:
        """The settings of the run; raises CheckpointError if the file has none."""
        return RunConfig.from_json(self.read_config_text(), self.config_path)

    def read_config_text(self) -> str:
        """The settings that create() was given, or go_on() last."""
        return _read(self.config_path)

    def go_on(self, config_json: str, environment_steps: int) -> None:
        """Replaces the settings of a run that goes on after so many environment steps, and removes its summary.

        The file of settings keeps its time, which is that of the run's start.
        """
        self._require_lock()
        self.require_place()
        if config_json != self.read_config_text():
            with while_writing(self.config_path):
                began = self.config_path.stat()
            write_output(self.config_path, config_json)
            with while_writing(self.config_path):
                os.utime(self.config_path, ns=(began.st_atime_ns, began.st_mtime_ns))
        with while_writing(self.tensorboard_path):
            self._events = self._events or EventFile(self.tensorboard_path)
            self._events.restart(environment_steps)
        with while_writing(self.summary_path):
            self.summary_path.unlink(missing_ok=True)

    def read_summary(self) -> dict[str, Any] | None:
        """The summary, or None if the run has not stopped properly."""
        if not self.summary_path.exists():
            return None
        try:
            return dict(json.loads(_read(self.summary_path)))
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{self.summary_path} is not a summary: {error}") from error

    def read_metrics(self) -> list[dict[str, Any]]:
        """All records in the order written; an incomplete last line is left out."""
        return list(self.iterate_metrics())

    def iterate_metrics(self) -> Iterator[dict[str, Any]]:
        """The same, one by one: 100,000 in a list take more than half a gigabyte."""
        if not self.metrics_path.exists():
            return
        for index, line in enumerate(_read_lines(self.metrics_path), start=1):
            try:
                yield dict(json.loads(line))
            except (ValueError, TypeError, RecursionError) as error:
                raise CheckpointError(f"{self.metrics_path}, line {index}, is not a record: {error}") from error

    @contextmanager
    def discarded_unless_used(self) -> Iterator[None]:
        """A context for a run: a mistake or an interrupt before it began leaves no directory; see discard_unused()."""
        try:
            yield
        except LaunchError:
            raise
        except (HeadraceError, KeyboardInterrupt):
            self.discard_unused()
            raise

    def discard_unused(self) -> None:
        """Removes the directory if it has no records, checkpoints or logs yet, nor files of others.

        One that existed before the run stays, empty.
        """
        self._require_lock()
        if self.displacement() is not None:
            return
        folders = [self.path / name for name in FOLDERS if (self.path / name).is_dir()]
        own = {self.config_path.name, LOCK, *FOLDERS}
        if any(path.name not in own for path in self.path.iterdir()) or any(any(each.iterdir()) for each in folders):
            return
        with while_writing(self.path):
            for folder in folders:
                folder.rmdir()
            self.config_path.unlink(missing_ok=True)
            (self.path / LOCK).unlink()
            if self._made:
                self.path.rmdir()

    def close(self) -> None:
        """Closes the sinks and the files, then releases the lock, even if one fails; a second call has no effect."""
        lock, metrics, events, sinks = self._lock, self._metrics, self._events, self._sinks
        self._lock = self._metrics = self._events = None
        self._sinks = []
        with ExitStack() as stack:  # the last one in is closed first
            if lock is not None:
                stack.callback(lock.close)
            if metrics is not None:
                stack.callback(os.close, metrics)
            if events is not None:
                stack.callback(events.close)
            for sink in reversed(sinks):
                stack.callback(sink.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_lock(self) -> None:
        if self._lock is None:
            raise CheckpointError(f"{self.path} is open for reading only; open it with writing=True")


def _read(path: Path) -> str:
    try:
        with while_reading(path):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not text: {error}") from error


def _read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text that end with a newline."""
    try:
        with while_reading(path), path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                if line.endswith("\n"):
                    yield line
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not text: {error}") from error


def _plain(value: Any) -> Any:
    """Converts a value for JSON: NumPy's scalars to Python's, numbers that are not finite to null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
