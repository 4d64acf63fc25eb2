"""What the kernel reports about processes and memory."""

import mmap
import os
import signal
from pathlib import Path

import pytest

from headrace.launch import processes, watcher
from headrace.launch.processes import ProcessLauncher
from headrace.roles.evaluator import EvaluatorRole
from headrace.servers import Endpoint

from ..waiting import wait_for


def test_a_process_is_read_whatever_its_name() -> None:
    own = watcher.read_process(os.getpid())
    assert own is not None
    assert (own.pid, own.parent, own.state) == (os.getpid(), os.getppid(), "R")
    assert watcher.read_process(2**22 + 1) is None


@pytest.mark.parametrize("text", ["low 0\noom 3\noom_kill 2\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"])
def test_processes_killed_for_memory_are_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "memory").write_text(text)
    assert watcher._counter(str(tmp_path / "memory")) == 2


def test_memory_is_named_if_the_count_increased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "memory_kills", lambda: 2)
    assert watcher._likely_cause(1) == " because memory ran out"
    assert "perhaps" in watcher._likely_cause(2)


@pytest.mark.parametrize(("kills", "said"), [((1, 1), ", perhaps because memory"), ((1, 2), " because memory")])
def test_a_killed_role_may_have_run_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: tuple[int, int], said: str
) -> None:
    counts = iter(kills)
    monkeypatch.setattr(processes, "memory_kills", lambda: next(counts))
    launcher = ProcessLauncher(Endpoint("unix:@headrace-none"), tmp_path)
    launcher.start(EvaluatorRole(0))
    os.kill(launcher._running["evaluator 0"].process.pid, signal.SIGKILL)
    ended = wait_for(launcher.poll)
    assert ended[0].reason == f"killed by SIGKILL{said} ran out"


def test_a_signal_between_the_last_heartbeat_and_the_next_check_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(watcher.time, "monotonic", lambda: now[0])
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        heart = watcher._Heartbeat(os.getpid(), page)

        def wait(seconds: float) -> str:
            for _ in range(int(seconds / watcher._PERIOD_SECONDS)):
                now[0] += watcher._PERIOD_SECONDS
                kill_reason = heart.kill_reason()
                if kill_reason:
                    return kill_reason
            return ""

        watcher.PAGE.pack_into(page, 0, 1, 3600.0)
        assert wait(1) == ""
        watcher.PAGE.pack_into(page, 0, 2, 3600.0)  # the last: from here on the environment holds Python's lock
        heart.signaled()
        assert wait(watcher._PATIENCE_SECONDS - 1) == ""
        assert "interrupted" in wait(2)

        heart.signaled()
        watcher.PAGE.pack_into(page, 0, 3, 3600.0)  # this signal was handled
        assert wait(60) == ""
