"""What the kernel tells of processes and of memory."""

import os
import signal
import time
from pathlib import Path

import pytest

from headrace.launch import Exit, ProcessLauncher, processes, watcher
from headrace.roles.base import Role
from headrace.servers import Endpoint


def test_a_process_is_read_whatever_its_name() -> None:
    own = watcher.read_process(os.getpid())
    assert own is not None
    assert (own.pid, own.parent, own.state) == (os.getpid(), os.getppid(), "R")
    assert watcher.read_process(2**22 + 1) is None


@pytest.mark.parametrize("text", ["low 0\noom 3\noom_kill 2\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"])
def test_processes_killed_for_memory_are_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "memory").write_text(text)
    assert watcher._counter(str(tmp_path / "memory")) == 2


def test_memory_is_named_where_the_count_rose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "memory_kills", lambda: 2)
    assert watcher._suspicion(1) == " because memory ran out"
    assert "perhaps" in watcher._suspicion(2)


@pytest.mark.parametrize(("kills", "said"), [((1, 1), ", perhaps because memory"), ((1, 2), " because memory")])
def test_a_killed_role_may_have_run_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: tuple[int, int], said: str
) -> None:
    counts = iter(kills)
    monkeypatch.setattr(processes, "memory_kills", lambda: next(counts))
    launcher = ProcessLauncher(Endpoint("unix:@headrace-none"), tmp_path)
    launcher.start(Role("evaluator", 0, "{}"))
    [child] = (
        int(pid)
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if b"headrace.launch.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 60.0
    ended: list[Exit] = []
    while not ended:
        assert time.monotonic() < deadline, "it did not end in time"
        ended = launcher.poll()
        time.sleep(0.02)
    assert ended[0].reason == f"killed by SIGKILL{said} ran out"
