"""Ends processes that a run leaves behind, and a run that can no longer end itself.

The training process starts this script for every run, in a session that no terminal's signals reach. The script uses
only the standard library and runs without site-packages, so it starts in milliseconds and needs little memory. See
`Guard`.
"""

import contextlib
import mmap
import os
import select
import shlex
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["CHECKPOINTS", "PAGE", "QUIT", "REPORTED", "ROLE_MARK", "Family", "Process", "memory_kills", "read_process"]

PAGE = struct.Struct("=Qd")
"""Memory shared with the training process: heartbeats so far, and seconds allowed without one (0: no limit)."""
CHECKPOINTS = "[0-9]*-updates-*"
"""Names of a run's complete checkpoints in `checkpoints`."""
ROLE_MARK = b"HEADRACE_ROLE_"
"""Prefix of the environment variable that marks a role and its descendants."""
QUIT = b"Q"
"""Message: the run has ended normally."""
REPORTED = b"S"
"""Message: the training process ends without cleaning up, and has reported why."""

_PERIOD_SECONDS = 0.25
_SCAN_SECONDS = 0.5
_SCAN_SHARE = 50
"""Scanning the machine's processes takes at most one fiftieth of a core's time."""
_GRACE_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
_SECOND_SIGNAL_SECONDS = 3.0
_END_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Process(NamedTuple):
    """A process; the pair of its number and its start time is never reused."""

    pid: int
    parent: int
    state: str
    started: int  # in ticks since boot


def read_process(pid: int) -> Process | None:
    """Reads a process's state from the kernel; returns None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[0], int(fields[19]))


def memory_kills() -> int | None:
    """Number of processes that the kernel has killed for memory, in this control group or else on this machine."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers == "":
                places = [f"/sys/fs/cgroup{group}/memory.events", "/sys/fs/cgroup/memory.events"]
            elif "memory" in controllers.split(","):
                root = "/sys/fs/cgroup/memory"
                places = [f"{root}{group}/memory.oom_control", f"{root}/memory.oom_control"]
            else:
                continue
            for place in places:
                with contextlib.suppress(OSError):
                    return _counter(place)
    with contextlib.suppress(OSError, ValueError):
        return _counter("/proc/vmstat")
    return None


class _Descent(NamedTuple):
    started: int
    root: int  # child of a head; this process or its ancestor


class Family:
    """The descendants of the processes `heads` that are no older than this object's process, even if reparented.

    scan() remembers descendants while their parents live. Others are found by one of `marks` in their environment
    variables, or by `mapped` in their memory maps, which identifies processes that were forked and run no other
    program. Processes that a role leaves behind end at the next scan(); those that other children of a head leave
    behind are kept.
    """

    def __init__(self, heads: Iterable[int], marks: Iterable[str] = (), mapped: str = "") -> None:
        own = read_process(os.getpid())
        self._heads = set(heads)
        self._marks = [mark.encode() for mark in marks]
        self._mapped = [mapped.encode()] if mapped else []
        self._since = own.started if own else 0
        self._known: dict[int, _Descent] = {}
        self._roles: set[int] = set()

    def scan(self) -> None:
        """Remembers the current descendants, and kills those of roles that have ended."""
        found = {process.pid: process for process in _processes() if process.started >= self._since}
        known = {pid: own for pid, own in self._known.items() if pid in found and found[pid].started == own.started}
        grown = True
        while grown:
            grown = False
            for process in found.values():
                if process.pid not in known and (process.parent in known or process.parent in self._heads):
                    root = known[process.parent].root if process.parent in known else process.pid
                    known[process.pid] = _Descent(process.started, root)
                    grown = True
        self._known = known
        for pid, own in known.items():
            if own.root == pid and pid not in self._roles and _is_marked(found[pid], [ROLE_MARK], "environ"):
                self._roles.add(pid)
            elif own.root in self._roles and own.root not in known:
                _kill(found[pid])

    def end(self) -> None:
        """Kills all remaining descendants, once the heads are gone, until there are none."""
        self._heads.clear()
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            self.scan()
            left = [process for process in _processes() if process.started >= self._since and self._is_own(process)]
            if not left:
                return
            for process in left:
                _kill(process)
            time.sleep(0.02)

    def _is_own(self, process: Process) -> bool:
        known = self._known.get(process.pid)
        if known is not None and known.started == process.started:
            return True
        return _is_marked(process, self._marks, "environ") or _is_marked(process, self._mapped, "maps")


class _Heartbeat:
    """Measures how long the training process has not sent a heartbeat, excluding times in which it was stopped."""

    def __init__(self, parent: int, page: mmap.mmap) -> None:
        self._parent = parent
        self._page = page
        self._beats = -1
        self._stalled = 0.0
        self._asked = 0.0  # seconds since the first of these signals
        self._signals = 0
        self._signal_beats = -1  # heartbeats when the last signal arrived
        self._before = time.monotonic()

    def signaled(self) -> None:
        """Records that the training process got a signal that asks it to end."""
        self._signals += 1
        self._signal_beats = PAGE.unpack_from(self._page)[0]

    def kill_reason(self) -> str:
        """Returns why the process must be killed, or an empty string if it must not. Must be called every period."""
        now = time.monotonic()
        elapsed = min(now - self._before, 2 * _PERIOD_SECONDS)  # this process may have been stopped too
        self._before = now
        beats, allowed = PAGE.unpack_from(self._page)
        if not allowed or beats != self._signal_beats:  # it has run since the signal, and handled it
            self._asked, self._signals = 0.0, 0
        if beats != self._beats or not allowed:
            self._beats, self._stalled = beats, 0.0
            return ""
        process = read_process(self._parent)
        if process is None or process.state in "Tt":
            return ""
        self._stalled += elapsed
        self._asked += elapsed if self._signals else 0.0
        held = "the environment has not returned and holds Python's lock"
        if self._stalled > allowed + _GRACE_SECONDS:
            return f"{held} for more than {allowed:.0f} s; the run can't continue or save its progress"
        if self._asked > _PATIENCE_SECONDS or (self._signals > 1 and self._stalled > _SECOND_SIGNAL_SECONDS):
            return f"interrupted, but {held}; nothing could be saved"
        return ""


def _watch(parent: int, link: socket.socket, page: mmap.mmap, mark: str, name: str, run: str) -> None:
    """Waits for the end of `parent`; cleans up after it if it did not end normally."""
    family, heart, kills = Family([parent], [mark], mapped=mark), _Heartbeat(parent, page), memory_kills()
    reason, silent, due = "", False, 0.0
    while os.getppid() == parent:
        if select.select([link], [], [], _PERIOD_SECONDS)[0]:
            message = link.recv(4096)
            if QUIT in message:
                family.scan()
                return
            silent = silent or REPORTED in message
            for number in message:
                if number in _SIGNALS:
                    heart.signaled()
        reason = heart.kill_reason()
        if reason and os.getppid() == parent:
            os.kill(parent, signal.SIGKILL)
            _await_end(parent)
            break
        begin = time.monotonic()
        if begin >= due:
            used = time.process_time()
            family.scan()
            due = begin + max(_SCAN_SECONDS, _SCAN_SHARE * (time.process_time() - used))
    with contextlib.suppress(OSError):
        silent = silent or bool({QUIT[0], REPORTED[0]} & set(link.recv(4096, socket.MSG_DONTWAIT)))
    family.end()
    if not silent:
        _say(reason or f"{name} was killed{_likely_cause(kills)}", run)


def _await_end(parent: int) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(0.01)


def _likely_cause(kills_before: int | None) -> str:
    kills = memory_kills()
    if kills is not None and kills_before is not None and kills > kills_before:
        return " because memory ran out"
    return ", perhaps because memory ran out, or it crashed"


def _say(reason: str, run: str) -> None:
    hint = ""
    if run and _has_checkpoint(run):
        hint = f"; headrace resume {shlex.quote(run)} continues from the last checkpoint"
    with contextlib.suppress(OSError):
        os.write(2, f"headrace: error: {reason}{hint}\n".encode())


def _has_checkpoint(run: str) -> bool:
    return any(Path(run, "checkpoints").glob(CHECKPOINTS))


def _processes() -> list[Process]:
    """All other processes that are not zombies."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
    return [process for process in found if process is not None and process.state not in "ZX"]


def _is_marked(process: Process, marks: list[bytes], file: str) -> bool:
    if not marks:
        return False
    try:
        held = Path(f"/proc/{process.pid}/{file}").read_bytes()
    except OSError:  # another user's, or gone
        return False
    return any(mark in held for mark in marks)


def _kill(process: Process) -> None:
    """Kills this process, but not another one that has taken its number."""
    now = read_process(process.pid)
    if now is not None and now.started == process.started:
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)


def _counter(path: str) -> int:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    raise OSError(f"{path} counts no processes killed for memory")


def _main() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent, link, page, mark, name, run = sys.argv[1:]
    with socket.socket(fileno=int(link)) as connection, mmap.mmap(int(page), mmap.PAGESIZE) as shared:
        _watch(int(parent), connection, shared, mark, name, run)


if __name__ == "__main__":
    _main()
