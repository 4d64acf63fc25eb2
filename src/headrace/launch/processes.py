"""Roles as processes on this machine."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from headrace.errors import LaunchError, StorageError
from headrace.fields import write_json
from headrace.launch.base import FAULTS, Exit, RoleStart
from headrace.launch.watcher import ROLE_MARK, Family, memory_kills
from headrace.roles.base import HANG_STATUS, Role
from headrace.servers import Endpoint

__all__ = ["FAULT_STATUSES", "SINGLE_THREAD", "ProcessLauncher", "child_environment", "signal_name"]

FAULT_STATUSES = {kind: 80 + number for number, kind in enumerate(FAULTS)}
"""Exit statuses of roles that a restart would not help, by the error's class."""
SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Set before a role imports anything: more threads than cores are what limits most published speedups."""
_GRACE_SECONDS = 5.0
_TAIL_BYTES = 8192


class _Running(NamedTuple):
    role: Role
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int  # offset at which this process's own output begins
    mark: str  # an environment variable of the process and all its descendants
    memory_kills: int | None  # counter at the start of the process


class ProcessLauncher:
    """Implements `Launcher`: starts a fresh interpreter for each role (never forks).

    A role's output goes to a log with its name, such as `logs/actor-0.log`; the parent directory of `logs` must exist.
    A role dies with this process, however this process ends.
    """

    def __init__(self, endpoint: Endpoint, logs: Path) -> None:
        self._endpoint = endpoint
        self._logs = logs
        self._running: dict[str, _Running] = {}

    def start(self, role: Role) -> None:
        """Starts a role in its own process; raises LaunchError, or StorageError if its log can't be written."""
        log = self._logs / f"{role.name.replace(' ', '-')}.log"
        arguments = [role.kind, str(role.index), str(os.getpid())]
        command = [sys.executable, "-m", "headrace.launch.child", *arguments]
        start_record = write_json(RoleStart(role, self._endpoint)).encode()
        mark = f"{ROLE_MARK.decode()}{secrets.token_hex(8)}"
        with self._open(log) as output:
            start = output.tell()  # before the process writes: it shares the position
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=child_environment() | {mark: role.name},
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"{role.name} can't be started: {error.strerror}") from error
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died already, which poll() reports
            process.stdin.write(start_record)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        self._running[role.name] = _Running(role, process, log, start, mark, memory_kills())

    def place(self, role: Role) -> str:
        """Empty: this machine."""
        return ""

    def poll(self) -> list[Exit]:
        """Processes that ended by themselves since the last call."""
        ended = [running for running in self._running.values() if running.process.poll() is not None]
        if not ended:
            return []
        for running in ended:
            del self._running[running.role.name]
        _end(ended, _family(ended))
        return [self._exit(running) for running in ended]

    def kill(self, role: Role) -> None:
        """Kills a process with SIGKILL."""
        ending = [self._running.pop(role.name)]
        family = _family(ending)
        family.scan()
        _end(ending, family)

    def stop(self, roles: Iterable[Role]) -> None:
        """Sends SIGTERM to all these processes, and SIGKILL to those still running after 5 seconds."""
        ending = [self._running.pop(role.name) for role in roles if role.name in self._running]
        family = _family(ending)
        try:
            family.scan()
            for running in ending:
                running.process.terminate()
            deadline = time.monotonic() + _GRACE_SECONDS
            for running in ending:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(max(0.0, deadline - time.monotonic()))
        finally:  # also after a second Ctrl-C
            _end(ending, family)

    def _exit(self, running: _Running) -> Exit:
        status = running.process.returncode
        reason = f"exit {status}" if status >= 0 else f"killed by {signal_name(-status)}"
        if status == -signal.SIGKILL:  # not from kill() or stop(), which report no exit
            before, now = running.memory_kills, memory_kills()
            certain = before is not None and now is not None and now > before
            reason += " because memory ran out" if certain else ", perhaps because memory ran out"
        fault = next((kind for kind, each in FAULT_STATUSES.items() if each == status), None)
        return Exit(running.role, reason, fault, _last_line(running), hung=status == HANG_STATUS)

    def _open(self, log: Path) -> BinaryIO:
        """Opens the log; creates the directory for logs again if it was removed."""
        try:
            self._logs.mkdir(exist_ok=True)
            return log.open("ab")
        except OSError as error:
            raise StorageError(f"can't write {log}: {error.strerror}") from error


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _last_line(running: _Running) -> str:
    try:
        with running.log.open("rb") as log:
            log.seek(max(running.log_start, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return "its log was removed"
    return lines[-1] if lines else "it wrote nothing"


def _family(running: list[_Running]) -> Family:
    return Family((each.process.pid for each in running), (each.mark for each in running))


def _end(ended: list[_Running], family: Family) -> None:
    """Kills the remaining processes of roles, and all processes that their environments left behind."""
    for running in ended:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
    for running in ended:
        running.process.wait()
    if ended:
        family.end()  # those in other sessions


def child_environment() -> dict[str, str]:
    """Environment variables of a child process: one thread, and this process's module search path."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path if isinstance(entry, str))
    return os.environ | SINGLE_THREAD | {"PYTHONPATH": path}
