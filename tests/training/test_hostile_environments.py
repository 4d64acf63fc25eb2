"""Environments that hang outside of steps, hold Python's lock, or leave processes behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..waiting import wait_for

SMALL = ["--learning-starts", "100", "--replay-capacity", "5000", "--batch-size", "32", "--hidden", "32"]
SERIAL = ["--topology", "serial", "--envs-per-actor", "1", *SMALL]
APEX = ["--topology", "apex", "--actors", "1", "--envs-per-actor", "1", *SMALL]
HANG = ["--hang-seconds", "2"]
WAIT_SECONDS = 120.0

HOSTILE = '''
import atexit, ctypes, multiprocessing, os, subprocess, sys, threading, time
from pathlib import Path
from headrace.environments.toy import Corridor

HERE = Path(__file__).parent
IN_ROLE = "headrace.launch.child" in " ".join(sys.orig_argv)

def sleep():
    while True:
        time.sleep(1)

def wait_in_native_code(library):
    """Takes a lock twice: no signal interrupts that."""
    lock = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)

def hold_lock():
    wait_in_native_code(ctypes.PyDLL(None))

def note(pid):
    with (HERE / "pids").open("a") as file:
        file.write(f"{pid}\\n")

class Wrapped(Corridor):
    steps = 0
    def step(self, action):
        Wrapped.steps += 1
        return super().step(action)

def elsewhere():
    os.chdir("/")
    return Wrapped()

def constructor():
    sleep()

def constructor_holds_lock():
    hold_lock()

def role_constructor():
    return sleep() if IN_ROLE else Wrapped()

class Close(Wrapped):
    def close(self):
        if Wrapped.steps:
            sleep()

class NativeClose(Wrapped):
    def close(self):
        if Wrapped.steps:
            wait_in_native_code(ctypes.CDLL(None))

def at_exit():
    atexit.register(sleep)
    return Wrapped()

def thread():
    threading.Thread(target=sleep, name="endless").start()
    return Wrapped()

class SleepStep(Wrapped):
    def step(self, action):
        if Wrapped.steps == 300:
            (HERE / "sleeps").touch()
            sleep()
        return super().step(action)

class LockStep(Wrapped):
    def step(self, action):
        if Wrapped.steps == 300:
            (HERE / "locked").touch()
            hold_lock()
        return super().step(action)

class Forks(Wrapped):
    """Each leaves a child in its own session, whose parent is gone, without and with another program."""
    started = False
    def step(self, action):
        if not Forks.started:
            Forks.started = True
            if not os.fork():
                os.setsid()
                if os.fork():
                    os._exit(0)
                note(os.getpid())
                sleep()
            code = "import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"
            pipe = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
            note(int(pipe.stdout.readline()))
            note(subprocess.Popen(["sleep", "1000"], start_new_session=True, env={}).pid)
        return super().step(action)
'''


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with the module `hostile`; what its environments noted must have ended."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    yield tmp_path
    for pid in noted(tmp_path):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def start(place: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place, process_group=0
    )


def train(place: Path, environment: str, *words: str) -> subprocess.Popen[str]:
    return start(
        place, "train", f"hostile:{environment}", "--run-dir", "run", "--final-evaluation-episodes", "0", *words
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that must end by itself."""
    try:
        out, err = process.communicate(timeout=WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it did not end: {out}{err}")
    assert "Traceback" not in out + err
    return process.returncode, out, err


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def noted(place: Path) -> list[int]:
    path = place / "pids"
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def roles(pid: int) -> dict[str, int]:
    """The run's roles by kind."""
    found = {}
    for child, words in children(pid).items():
        if "headrace.launch.child" in words:
            found[words[words.index("headrace.launch.child") + 1]] = child
    return found


def children(pid: int) -> dict[int, list[str]]:
    """The command lines of a process's children."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child): Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0") for child in found}


def wait_for_scan(pid: int) -> None:
    """Waits until the run's watcher has made enough reads for a scan of all processes that began after this call."""
    [watcher] = [child for child, words in children(pid).items() if any(word.endswith("watcher.py") for word in words)]

    def reads() -> int:
        return int(re.search(r"syscr: (\d+)", Path(f"/proc/{watcher}/io").read_text())[1])

    # A scan reads two files at most of each process, each to its end; one scan may already have begun.
    due = reads() + 10 * sum(name.isdigit() for name in os.listdir("/proc"))
    wait_for(lambda: reads() >= due)


def test_a_constructor_that_hangs_in_the_training_process_is_named(place: Path) -> None:
    code, _, err = end(train(place, "constructor", *APEX, "--steps", "1000", *HANG))
    assert code == 2
    assert re.fullmatch(r'headrace: error: .*"hostile:constructor": its constructor has not returned .*\n', err)
    assert not (place / "run").exists()


@pytest.mark.slow
def test_a_hanging_constructor_is_named_from_python_too(place: Path) -> None:
    code = "import headrace; headrace.train('hostile:constructor', steps=1000, hang_seconds=2.0, run_dir='run')"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert re.search(r"EnvironmentFault: .*its constructor has not returned", ended.stderr)


def test_a_constructor_that_holds_the_lock_is_ended(place: Path) -> None:
    code, _, err = end(train(place, "constructor_holds_lock", *APEX, "--steps", "1000", *HANG))
    assert code == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: the environment has not returned and holds Python's lock .*\n", err)


@pytest.mark.slow
def test_a_constructor_that_hangs_in_roles_ends_the_run(place: Path) -> None:
    code, out, err = end(train(place, "role_constructor", *APEX, "--steps", "1000", *HANG))
    assert code == 1
    assert out.count("restarting it") >= 2
    assert re.search(r"headrace: error: \w+ 0 died 3 times", err)


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        ("Close", 0, "its close() has not returned"),
        pytest.param("NativeClose", 2, "its close() has not returned", marks=pytest.mark.slow),
        pytest.param("at_exit", 0, "a function registered with atexit has not ended", marks=pytest.mark.slow),
        pytest.param("thread", 0, "thread endless, endless has not ended", marks=pytest.mark.slow),
    ],
)
def test_a_hang_at_the_end_does_not_block_a_serial_run(place: Path, environment: str, code: int, said: str) -> None:
    ended, out, err = end(train(place, environment, *SERIAL, "--steps", "500", *HANG))
    assert ended == code
    assert said in out + err
    assert json.loads((place / "run" / "summary.json").read_text())["stopped_by"] == "steps"
    assert list((place / "run").glob("checkpoints/*-updates-*"))


@pytest.mark.parametrize("topology", [SERIAL, APEX], ids=["serial", "apex"])
def test_an_environment_may_change_the_working_directory(place: Path, topology: list[str]) -> None:
    code, out, err = end(train(place, "elsewhere", *topology, "--steps", "500"))
    assert code == 0, err
    assert "headrace evaluate run\n" in out
    assert list((place / "run").glob("checkpoints/*-updates-*"))


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["Close", "thread"])
def test_a_hang_at_the_end_of_roles_does_not_block_the_run(place: Path, environment: str) -> None:
    code, _, err = end(train(place, environment, *APEX, "--steps", "500", "--hang-seconds", "20"))
    assert code == 0, err
    assert json.loads((place / "run" / "summary.json").read_text())["stopped_by"] == "steps"


@pytest.mark.slow
def test_a_hanging_close_does_not_block_an_evaluation(place: Path) -> None:
    assert end(train(place, "Close", *APEX, "--steps", "500", "--hang-seconds", "4"))[0] == 0
    code, _, err = end(start(place, "evaluate", "run", "--episodes", "1"))
    assert code == 2
    assert "its close() has not returned" in err


@pytest.mark.parametrize(
    "topology", [pytest.param(SERIAL, id="serial", marks=pytest.mark.slow), pytest.param(APEX, id="apex")]
)
def test_a_step_that_hangs_ends_a_simulated_run(place: Path, topology: list[str]) -> None:
    words = ["--launcher", "simulated", "--steps", "5000", "--hang-seconds", "10"]
    code, _, err = end(train(place, "SleepStep", *topology, *words))
    assert code == 2
    assert re.fullmatch(r"headrace: error: .* not returned for more than 10 s; the run can't continue\n", err)


@pytest.mark.slow
def test_a_step_that_holds_the_lock_is_ended(place: Path) -> None:
    code, _, err = end(train(place, "LockStep", *SERIAL, "--steps", "5000", *HANG))
    assert code == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: the environment has not returned and holds Python's lock .*\n", err)


def test_a_second_ctrl_c_ends_a_step_that_holds_the_lock(place: Path) -> None:
    process = train(place, "LockStep", *SERIAL, "--steps", "5000", "--hang-seconds", "3600")
    wait_for((place / "locked").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    code, _, err = end(process)
    assert code == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: interrupted, but the environment .*\n", err)


@pytest.mark.slow
def test_one_ctrl_c_ends_a_step_that_hangs_and_saves(place: Path) -> None:
    process = train(place, "SleepStep", *SERIAL, "--steps", "5000", "--hang-seconds", "3600")
    wait_for((place / "sleeps").exists)
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 2
    assert "step() of the environment has not returned for more than 10 s" in err
    assert list((place / "run" / "checkpoints").glob("*/state.json"))


@pytest.mark.slow
def test_one_ctrl_c_ends_a_step_that_holds_the_lock(place: Path) -> None:
    process = train(place, "LockStep", *SERIAL, "--steps", "5000", "--hang-seconds", "3600")
    wait_for((place / "locked").exists)
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == -signal.SIGKILL
    assert "headrace: error: interrupted, but the environment" in err


@pytest.mark.slow
def test_a_run_stopped_for_a_long_time_continues(place: Path) -> None:
    process = train(place, "Wrapped", *SERIAL, "--steps", "10000000", "--hang-seconds", "3")
    metrics = place / "run" / "metrics.jsonl"
    wait_for(metrics.exists)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(12)  # more than hang_seconds and every grace
    size = metrics.stat().st_size
    os.kill(process.pid, signal.SIGCONT)
    wait_for(lambda: metrics.stat().st_size > size)
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130, err


@pytest.mark.parametrize(
    "topology", [pytest.param(SERIAL, id="serial", marks=pytest.mark.slow), pytest.param(APEX, id="apex")]
)
def test_nothing_that_an_environment_started_outlives_a_killed_run(place: Path, topology: list[str]) -> None:
    process = train(place, "Forks", *topology, "--steps", "10000000")
    wait_for(lambda: len(noted(place)) == 3)
    wait_for_scan(process.pid)  # of the three, the one without our variables must have been seen
    assert all(alive(pid) for pid in noted(place))
    process.kill()
    code, _, err = end(process)  # the watcher holds the pipe until it is done
    assert code == -signal.SIGKILL
    assert re.fullmatch(r"headrace: error: the training process was killed,? .*\n", err)
    assert not [pid for pid in noted(place) if alive(pid)]


@pytest.mark.slow
def test_nothing_that_an_environment_started_outlives_a_killed_role(place: Path) -> None:
    process = train(place, "Forks", *APEX, "--steps", "10000000")
    wait_for(lambda: len(noted(place)) == 3)
    wait_for_scan(process.pid)  # as above
    left = noted(place)
    os.kill(roles(process.pid)["actor"], signal.SIGKILL)
    wait_for(lambda: len(noted(place)) == 6)  # it was restarted
    wait_for(lambda: not any(alive(pid) for pid in left))
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 130
    assert not [pid for pid in noted(place) if alive(pid)]
