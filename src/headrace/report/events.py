"""Writes TensorBoard's event file without TensorFlow, torch or a thread."""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

__all__ = ["EventFile", "scalars"]


def scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a record as (tag, value), with tags such as "progress/loss" and "actor_times/push"."""
    for key, value in record.items():
        if key in ("kind", "environment_steps"):
            continue
        if isinstance(value, Mapping):
            yield from ((f"{key}/{name}", float(part)) for name, part in value.items() if part is not None)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{record['kind']}/{key}", float(value)


class EventFile:
    """An event file for TensorBoard. Each record is one event, whose step is the number of environment steps."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        directory.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._event = Event
        self._file = FileIO(directory / name, "a")
        self._records = RecordWriter(self._file)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def restart(self, step: int) -> None:
        """Takes back what earlier files have of later steps, which a resumed run repeats."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        log = SessionLog(status=SessionLog.START)
        self._write(self._event(wall_time=time.time(), step=step + 1, session_log=log))

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes the record's numbers; a record without environment steps is left out."""
        if "environment_steps" not in record:
            return
        event = self._event(wall_time=time.time(), step=int(record["environment_steps"]))
        for tag, value in scalars(record):
            event.summary.value.add(tag=tag, simple_value=value)
        self._write(event)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
