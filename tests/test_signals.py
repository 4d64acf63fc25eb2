"""Signals before a run handles them: one line, exit code 130, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.signals import held_back
from headrace.training.interrupts import Interrupts

SEND = """
import os, sys
from headrace.cli.main import main

class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.argv[1] = ""
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Sender())
sys.exit(main(["train", "headrace.environments.toy:Corridor", "--steps", "500", "--run-dir", "run"]))
"""


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("headrace.cli.train", signal.SIGINT),
        ("headrace.cli.train", signal.SIGTERM),
        ("headrace.cli.train", signal.SIGHUP),
        ("numpy", signal.SIGTERM),
        ("onnx", signal.SIGINT),
        ("headrace.environments.toy", signal.SIGHUP),
    ],
)
def test_a_signal_while_modules_are_imported_is_one_line(tmp_path: Path, number: signal.Signals, module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SEND, module, str(int(number))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 130
    assert ended.stderr == "headrace: interrupted\n"
    assert not (tmp_path / "run").exists()


def test_a_signal_that_is_held_back_outlives_an_error() -> None:
    def fail() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            raise ConnectionError

    with pytest.raises(KeyboardInterrupt):
        fail()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_processes_that_a_run_s_code_forks(number: signal.Signals) -> None:
    """As a pool of a callback, or the simulator of an environment: multiprocessing ends them by SIGTERM."""
    ready, tell = os.pipe()
    with Interrupts(lambda: None) as requests:
        forked = os.fork()
        if forked == 0:
            try:
                os.write(tell, b".")
                time.sleep(60)
            finally:
                os._exit(0)
        assert os.read(ready, 1) == b"."
        os.kill(forked, number)
        _, status = os.waitpid(forked, 0)
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == number
        assert not requests.requested
        os.kill(os.getpid(), number)  # the run has its handlers still
        assert requests.requested
    for end in (ready, tell):
        os.close(end)


LATE = """
import atexit, os, signal, sys
from headrace.cli.main import main

atexit.register(lambda: [os.kill(os.getpid(), number) for number in (signal.SIGINT, signal.SIGTERM)])
sys.argv = ["headrace", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize(("words", "status"), [(["presets"], 0), (["presets", "--unknown"], 2)])
def test_signals_after_a_command_has_ended_do_not_change_its_exit_code(words: list[str], status: int) -> None:
    command = [sys.executable, "-c", LATE, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == status
    assert "Traceback" not in ended.stderr
