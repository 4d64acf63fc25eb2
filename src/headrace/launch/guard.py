"""Ensures that no process outlives a run, however the run ends."""

import contextlib
import mmap
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.launch import watcher
from headrace.signals import held_back

__all__ = ["Guard"]

_QUIT_SECONDS = 10.0


class Guard:
    """A context with a watcher process, which ends everything started in the context if this process is killed.

    An environment variable marks processes started by this process or its descendants; it is removed afterwards. The
    watcher also kills this process if it does not beat() within the time set by allow(): then the process holds
    Python's lock and can't end itself. `name` describes this process in messages; `run` is the run that may be resumed.
    If the watcher dies, the run continues without it. One thread enters and leaves the context; any thread may call the
    other methods.
    """

    def __init__(self, name: str, run: Path | None = None) -> None:
        self._arguments = [name, str(run.absolute()) if run else ""]
        self._mark = f"HEADRACE_RUN_{secrets.token_hex(8)}"
        self._owner = os.getpid()
        self._beats = 0
        self._allowed = 0.0
        self._wakeup: int | None = None

    def __enter__(self) -> Self:
        try:
            with held_back():  # else an interrupt during the start would leave a watcher that nothing ends
                self._start()
        except KeyboardInterrupt:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        page = os.memfd_create(self._mark)
        os.ftruncate(page, mmap.PAGESIZE)
        self._page = mmap.mmap(page, mmap.PAGESIZE)
        self._link, self._other = socket.socketpair()  # both stay open, so that a dead watcher causes no error here
        self._link.setblocking(False)
        descriptors = (self._other.fileno(), page)
        options = ["-I", "-S", watcher.__file__, str(os.getpid()), *map(str, descriptors), self._mark]
        self._process = subprocess.Popen(
            [sys.executable, *options, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if sys.stderr is None else None,
            pass_fds=descriptors,
            start_new_session=True,
        )
        os.close(page)
        os.environ[self._mark] = "1"
        if threading.current_thread() is threading.main_thread():  # works even while Python's lock is held
            self._wakeup = signal.set_wakeup_fd(self._link.fileno(), warn_on_full_buffer=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._owner:  # a child that an environment forked, and that left the context by an exception
            return
        if self._wakeup is not None:
            signal.set_wakeup_fd(self._wakeup)
        os.environ.pop(self._mark, None)
        self._send(watcher.QUIT)
        try:
            self._process.wait(_QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for end in (self._link, self._other, self._page):
            end.close()

    def allow(self, seconds: float) -> None:
        """Sets the maximum time between two beats from now on; 0 means no limit."""
        self._allowed = seconds
        self.beat()

    def beat(self) -> None:
        """Records that this process is alive: one of its threads has Python's lock."""
        self._beats += 1
        watcher.PAGE.pack_into(self._page, 0, self._beats, self._allowed)

    def mark_reported(self) -> None:
        """Tells the watcher that this process is about to end without cleaning up, and has reported why."""
        self._send(watcher.REPORTED)

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self._link.send(message)
