"""Processes of a study: they communicate in lines, and end with the study.

A module that is a process reads its settings with received(), answers with answer(), and measures in a `Window` of
time that is the same for all processes.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from headrace.errors import LaunchError
from headrace.fields import read_fields, write_json
from headrace.launch.processes import child_environment
from headrace.signals import die_with_parent

__all__ = ["Process", "Window", "answer", "open_window", "received", "serve"]

_TERM_SECONDS = 3.0
_READ_BYTES = 1 << 16
_SERVE_SECONDS = 20.0
_LISTENING = "listening on "
_WARM_UP_SECONDS = 1.0

Settings = TypeVar("Settings")


class Window(NamedTuple):
    """The time in which processes measure, in seconds of time.monotonic()."""

    begin: float
    end: float


class Process:
    """A command in its own process group, with one thread for arithmetic; its stderr goes to `log`.

    Used by one thread. The end of a `with` block ends it. Raises LaunchError if the command does not start.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        self._unread = b""
        with log.open("ab") as errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=child_environment(),
                    start_new_session=True,  # only the study gets Ctrl-C; it then ends its processes
                    preexec_fn=die_with_parent,  # noqa: PLW1509 (nothing here forks from a thread)
                )
            except OSError as error:
                raise LaunchError(f"{name} does not start: {command[0]}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @classmethod
    def of_module(cls, module: str, folder: Path, settings: Any, prefix: Sequence[str] = (), name: str = "") -> Self:
        """The module as a process with these settings, a dataclass; its log is in the folder."""
        name = name or module.rpartition(".")[2]
        process = cls(name, [*prefix, sys.executable, "-m", module], folder / f"{name}.log")
        process.say(write_json(settings))
        return process

    @property
    def process_id(self) -> int:
        """The process id."""
        return self._process.pid

    def say(self, line: str) -> None:
        """Sends a line; if the process has ended, the next listen() reports it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def hear(self, word: str, timeout_seconds: float) -> None:
        """Waits for this line; raises LaunchError if another one comes."""
        said = self.listen(timeout_seconds)
        if said != word:
            raise LaunchError(f"{self.name} said {said!r}; it must say {word!r}")

    def record(self, timeout_seconds: float) -> Any:
        """The next line that it prints, read as JSON; raises as listen()."""
        return json.loads(self.listen(timeout_seconds))

    def listen(self, timeout_seconds: float) -> str:
        """The next line that it prints; raises LaunchError, with its last lines, if none comes in time."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise LaunchError(f"{self.name} said nothing for {timeout_seconds:g} s{self._last_words()}")
                read = os.read(self._process.stdout.fileno(), _READ_BYTES)
                if not read:
                    status = self._process.wait()
                    raise LaunchError(f"{self.name} ended with status {status}{self._last_words()}")
                self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode(errors="replace")

    def stop(self) -> None:
        """Sends SIGTERM, and a little later SIGKILL to the whole group."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERM_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def open_window(processes: Iterable[Process], seconds: float) -> Window:
    """Tells all processes to measure for this long, after a warm-up."""
    begin = time.monotonic() + _WARM_UP_SECONDS
    window = Window(begin, begin + seconds)
    for process in processes:
        process.say(json.dumps(window))
    return window


def received(kind: type[Settings]) -> Settings:
    """In a process: the settings, or the window, that the study sends next."""
    given = json.loads(sys.stdin.readline())
    return read_fields(kind, given) if isinstance(given, dict) else kind(*given)


def answer(record: object) -> None:
    """In a process: sends a word, or a record as JSON, to the study."""
    print(record if isinstance(record, str) else json.dumps(record), flush=True)


@contextlib.contextmanager
def serve(
    folder: Path, listen: Sequence[str], prefix: Sequence[str] = (), options: Sequence[str] = ()
) -> Iterator[tuple[Process, list[str]]]:
    """Starts `headrace serve`; returns it and its addresses. Raises LaunchError if it fails."""
    command = [*prefix, sys.executable, "-m", "headrace", "serve", "--quiet", *options]
    command += [word for address in listen for word in ("--listen", address)]
    with Process("headrace serve", command, folder / "server.log") as process:
        lines = [process.listen(_SERVE_SECONDS) for _ in listen]
        if not all(line.startswith(_LISTENING) for line in lines):
            raise LaunchError(f"headrace serve printed {lines}; its addresses are required")
        yield process, [line.removeprefix(_LISTENING) for line in lines]
