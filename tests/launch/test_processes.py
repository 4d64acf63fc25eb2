"""Roles as processes: how settings and the address reach them."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError, DivergenceError
from headrace.launch.processes import ProcessLauncher
from headrace.roles.base import HANG_STATUS
from headrace.roles.evaluator import EvaluatorRole
from headrace.servers import Endpoint

from ..waiting import wait_for

SECRET = "correct-horse"


def test_the_address_is_not_among_the_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    popen = subprocess.Popen

    def record(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        commands.append(command)
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", record)
    launcher = ProcessLauncher(Endpoint(f"redis://:{SECRET}@host/none"), tmp_path)
    launcher.start(EvaluatorRole(0))
    exits = wait_for(launcher.poll)
    [command] = commands
    assert SECRET not in " ".join(command)
    [ended] = exits  # which says that the address arrived, and what is wrong with it
    assert ended.fault is ConfigError
    assert ended.message.startswith("server is redis://host/none; an address of Redis must be ")
    assert SECRET not in (tmp_path / "evaluator-0.log").read_text()


def test_a_process_that_dies_before_it_reads_its_settings_is_a_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = subprocess.Popen

    def die(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        program = "import sys; sys.exit('no memory for imports')"
        process = popen([sys.executable, "-c", program], **options)
        process.wait()
        return process

    monkeypatch.setattr(subprocess, "Popen", die)
    launcher = ProcessLauncher(Endpoint("unix:@nowhere"), tmp_path)
    launcher.start(EvaluatorRole(0))
    [ended] = launcher.poll()
    assert (ended.role.name, ended.reason, ended.fault) == ("evaluator 0", "exit 1", None)
    assert ended.message == "no memory for imports"
    assert launcher.poll() == []


def started(launcher: ProcessLauncher, monkeypatch: pytest.MonkeyPatch, program: str) -> "subprocess.Popen[bytes]":
    """An evaluator whose process runs this program instead."""
    popen, made = subprocess.Popen, []

    def start(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        made.append(popen([sys.executable, "-c", program], **options))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", start)
        launcher.start(EvaluatorRole(0))
    return made[0]


@pytest.mark.parametrize("interrupted", ["terminate", "wait"])
def test_a_second_interrupt_while_roles_stop_kills_them(
    interrupted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = ProcessLauncher(Endpoint("unix:@nowhere"), tmp_path)
    ready = tmp_path / "ready"
    ignoring = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(ready)!r}, 'w')"
    process = started(launcher, monkeypatch, f"{ignoring}; time.sleep(1000)")
    wait_for(ready.exists)

    def interrupt(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(process, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        launcher.stop([EvaluatorRole(0)])
    assert process.wait(60.0) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("program", "reason", "hung"),
    [
        (f"raise SystemExit({HANG_STATUS})", f"exit {HANG_STATUS}", True),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 6)",
            f"killed by signal {signal.SIGRTMIN + 6}",
            False,
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "killed by SIGTERM", False),
    ],
)
def test_how_a_process_ended(
    program: str, reason: str, hung: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = ProcessLauncher(Endpoint("unix:@nowhere"), tmp_path)
    started(launcher, monkeypatch, program).wait(60.0)
    [ended] = launcher.poll()
    assert (ended.reason, ended.hung) == (reason, hung)


def test_a_fault_keeps_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = ProcessLauncher(Endpoint("unix:@nowhere"), tmp_path)
    program = """if True:
        import os, sys
        from headrace.errors import DivergenceError
        from headrace.launch import child

        def diverge(*_):
            raise DivergenceError("the loss is nan")

        child.read_json, child.die_with = diverge, lambda parent: None
        sys.argv.append("0")
        child.main()
    """
    started(launcher, monkeypatch, program).wait(60.0)
    [ended] = launcher.poll()
    assert (ended.fault, ended.message) == (DivergenceError, "the loss is nan")


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("run_role", "during an import, whose errors are taken for an environment's"),
        ("leave_soon", "after the role has ended"),
    ],
)
def test_a_request_to_end_is_no_failure_at_any_time(name: str, when: str) -> None:
    program = f"""
import os, signal, sys
from headrace.errors import EnvironmentFault
from headrace.launch import child

def asked(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except Exception as error:
        raise EnvironmentFault("it can't be imported") from error

child.read_json = lambda *_: child.RoleStart(None, None)
child.run_role = lambda *_: None
child.{name} = asked
sys.argv.append(str(os.getppid()))
child.main()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), when
