"""The guard's effects on its process, and the processes that it ends afterwards."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.launch.guard import Guard

from ..waiting import wait_for

GUARDED = """
import os, signal, subprocess, sys, time
from headrace.launch.guard import Guard

with Guard("the guarded process") as guard:
    [watcher] = [int(pid) for pid in open(f"/proc/self/task/{os.getpid()}/children").read().split()]
    other = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=-3, stderr=-3)
    print(watcher, other.pid, flush=True)
    sys.stdin.readline()
    END
"""


def guarded(end: str) -> tuple[subprocess.Popen[str], int, int]:
    """A guarded process that runs this code once it reads a line, its watcher, and a process that it started."""
    process = subprocess.Popen(
        [sys.executable, "-c", GUARDED.replace("END", end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    watcher, other = map(int, process.stdout.readline().split())
    return process, watcher, other


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    wait_for(lambda: not alive(pid))


def test_the_guard_restores_its_process() -> None:
    before = dict(os.environ)
    with Guard("the test"):
        [mark] = set(os.environ) - set(before)
        assert mark.startswith("HEADRACE_RUN_")
        with Guard("the test"):
            assert len(set(os.environ) - set(before)) == 2
    assert dict(os.environ) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_interrupt_while_the_watcher_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    before = dict(os.environ)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt), Guard("the test"):
        raise AssertionError
    assert [process.returncode for process in started] == [0]
    assert dict(os.environ) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_killed_process_is_named_and_what_it_started_ends() -> None:
    process, watcher, other = guarded("os.kill(os.getpid(), signal.SIGKILL)")
    _, err = process.communicate("\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: the guarded process was killed.*\n", err)
    wait_until_gone(watcher)
    wait_until_gone(other)


def test_an_orderly_end_is_silent_and_ends_nothing() -> None:
    process, watcher, other = guarded("pass")
    try:
        _, err = process.communicate("\n", timeout=60)
        assert (process.returncode, err) == (0, "")
        wait_until_gone(watcher)
        assert alive(other)
    finally:
        os.kill(other, signal.SIGKILL)


def test_an_end_that_was_reported_is_not_reported_again() -> None:
    process, _, other = guarded("guard.mark_reported(); os._exit(3)")
    _, err = process.communicate("\n", timeout=60)
    assert (process.returncode, err) == (3, "")
    wait_until_gone(other)


def test_a_dead_watcher_does_not_fail_the_run() -> None:
    process, _, other = guarded("os.kill(watcher, signal.SIGKILL); guard.beat(); guard.mark_reported()")
    try:
        _, err = process.communicate("\n", timeout=60)
        assert (process.returncode, err) == (0, "")
    finally:
        os.kill(other, signal.SIGKILL)


def test_a_process_that_holds_the_lock_is_killed() -> None:
    process, _, other = guarded("import ctypes; guard.allow(0.5); ctypes.PyDLL(None).sleep(1000)")
    _, err = process.communicate("\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: the environment .* holds Python's lock .*\n", err)
    wait_until_gone(other)
