"""Faults in real processes, and their messages for the user."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.replay import Signature, Table
from headrace.training.checkpoint import newest_checkpoint

from ..waiting import wait_for

TOY = "headrace.environments.toy:"
SMALL = ["--actors", "1", "--envs-per-actor", "2", "--chunk-steps", "10", "--batch-size", "32", "--hidden", "32"]
SMALL += ["--learning-starts", "100", "--replay-capacity", "5000", "--samples-per-step", "4"]
_ACCEPTS = 1 << 16  # the kernel's flag of a socket that listens


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts `headrace train` in its own process group, as a shell would."""
    command = [sys.executable, "-m", "headrace", "train", *arguments, "--run-dir", str(tmp_path / "run")]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, process_group=0
    )


def train(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    process = start(tmp_path, *arguments)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words(pid: int) -> list[bytes]:
    """The command of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def roles(pid: int, kind: bytes = b"") -> list[int]:
    """Process ids of a run's roles, of one kind if it is given."""
    commands = {child: words(child) for child in children(pid)}
    return [child for child, own in commands.items() if b"headrace.launch.child" in own and (not kind or kind in own)]


def actors(pid: int) -> list[int]:
    return roles(pid, b"actor")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def idle(pid: int) -> bool:
    """Whether the process spends no time for half a second."""
    spent = []
    for _ in range(2):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        spent.append((fields[11], fields[12]))  # user and system time
        time.sleep(0.5)
    return spent[0] == spent[1]


def listening(pid: int) -> list[str]:
    """Names of the Unix sockets that a process listens on."""
    links = {link.resolve().name for link in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [row[7] for row in rows if int(row[3], 16) & _ACCEPTS and f"socket:[{row[6]}]" in links]


def learning(tmp_path: Path) -> bool:
    metrics = tmp_path / "run" / "metrics.jsonl"
    return metrics.exists() and any(
        json.loads(line).get("learner_steps", 0) > 0 for line in metrics.read_text().splitlines()
    )


def test_values_that_are_not_finite_are_one_clear_line(tmp_path: Path) -> None:
    ended = train(tmp_path, f"{TOY}NanObservation", *SMALL, "--steps", "5000")
    assert ended.returncode == 2
    assert re.search(r"headrace: error: .*step 7: observation.* is nan", ended.stderr)
    assert "Traceback" not in ended.stderr + ended.stdout


def test_an_environment_that_raises_in_a_serial_run_is_one_clear_line(tmp_path: Path) -> None:
    ended = train(tmp_path, f"{TOY}Crashing", "--topology", "serial", *SMALL[2:], "--steps", "5000")
    assert ended.returncode == 1
    assert re.search(r"headrace: error: training failed: RuntimeError: .*step 7", ended.stderr)
    assert "Traceback" not in ended.stderr + ended.stdout
    assert "Traceback" in (tmp_path / "run" / "logs" / "training.log").read_text()


def test_an_environment_that_raises_while_a_serial_run_is_set_up_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "from headrace.environments.toy import Corridor",
        "class Scarce(Corridor):",
        "    resets = 0",
        "    def reset(self, **options):",
        "        Scarce.resets += 1",
        "        assert Scarce.resets < 2, 'only one'",
        "        return super().reset(**options)",
    ]
    (tmp_path / "scarce.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    ended = train(tmp_path, "scarce:Scarce", "--topology", "serial", *SMALL[2:], "--steps", "5000")
    assert ended.returncode == 1
    assert re.search(
        r"headrace: error: training failed: AssertionError: only one \(scarce.py, line 6; raised by .*step 0",
        ended.stderr,
    )
    assert "Traceback" not in ended.stderr + ended.stdout
    assert "Traceback" in (tmp_path / "run" / "logs" / "training.log").read_text()


def test_diverging_training_is_reported_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "500").returncode == 0
    good = newest_checkpoint(run / "checkpoints")
    learned = good.learner()
    config = json.loads((run / "config.json").read_text())
    config["algorithm"]["learning_rate"] = 1e30
    (run / "config.json").write_text(json.dumps(config))
    assert main(["resume", str(run), "--steps", "50000", "--quiet"]) == 2
    assert "headrace: error: training diverged" in capsys.readouterr().err
    kept = newest_checkpoint(run / "checkpoints")
    assert kept.state.learner_steps == good.state.learner_steps > 0
    assert all(np.array_equal(value, learned[name]) for name, value in kept.learner().items())


@pytest.mark.parametrize(
    ("toy", "said"), [("Crashing", "RuntimeError"), pytest.param("Exiting", "exit 3", marks=pytest.mark.slow)]
)
def test_three_deaths_stop_the_run_with_the_actors_own_error(tmp_path: Path, toy: str, said: str) -> None:
    ended = train(tmp_path, f"{TOY}{toy}", *SMALL, "--steps", "5000")
    assert ended.returncode == 1
    assert re.search(rf"headrace: error: actor 0 died 3 times within a minute.*{said}", ended.stderr)
    assert (ended.stdout + ended.stderr).count("restarting it") == 2
    assert "Traceback" not in ended.stderr + ended.stdout


@pytest.mark.parametrize("topology", [pytest.param("apex", marks=pytest.mark.slow), "serial"])
def test_an_environment_that_hangs_is_noticed(tmp_path: Path, topology: str) -> None:
    small = SMALL if topology == "apex" else SMALL[2:]
    ended = train(tmp_path, f"{TOY}Hanging", "--topology", topology, *small, "--steps", "5000", "--hang-seconds", "3")
    assert ended.returncode in (1, 2)
    assert re.search(r"environment has not returned for", ended.stderr)


@pytest.mark.slow
def test_a_killed_actor_is_restarted_and_the_folder_of_its_log_made_again(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "20000", "--final-evaluation-episodes", "1")
    wait_for(lambda: learning(tmp_path))
    shutil.rmtree(tmp_path / "run" / "logs")
    os.kill(actors(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "actor 0 died (killed by SIGKILL" in out
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["role"] for record in records if record["kind"] == "exit"] == ["actor 0"]
    assert (tmp_path / "run" / "logs" / "actor-0.log").exists()


def test_nothing_outlives_a_killed_learner(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    wait_for(lambda: learning(tmp_path))
    family = children(process.pid)
    assert len(roles(process.pid)) == 2  # actor and evaluator
    [socket] = listening(process.pid)
    assert socket.startswith("@")
    process.kill()
    process.communicate(timeout=120)
    wait_for(lambda: not any(alive(child) for child in family))
    assert socket not in Path("/proc/net/unix").read_text()


@pytest.mark.parametrize("topology", [pytest.param("apex", marks=pytest.mark.slow), "serial"])
def test_a_run_killed_soon_after_its_start_can_be_resumed(tmp_path: Path, topology: str) -> None:
    options = SMALL if topology == "apex" else SMALL[2:]
    process = start(tmp_path, f"{TOY}Corridor", *options, "--topology", topology, "--steps", "10000000")
    wait_for(lambda: list((tmp_path / "run" / "checkpoints").glob("*-updates-*")))
    process.kill()
    process.communicate(timeout=120)
    saved = newest_checkpoint(tmp_path / "run" / "checkpoints").state.moment
    assert saved.learner_steps > 0
    resume = [sys.executable, "-m", "headrace", "resume", str(tmp_path / "run")]
    more = ["--steps", str(saved.environment_steps + 500), "--quiet"]
    resumed = subprocess.run([*resume, *more], capture_output=True, text=True, timeout=200, check=False)
    assert resumed.returncode == 0, resumed.stderr


def test_ctrl_c_saves_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    wait_for(lambda: learning(tmp_path))
    family = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not any(alive(child) for child in family)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped_by"] == "interrupt"
    more = str(summary["environment_steps"] + 2000)
    resumed = subprocess.run(
        [sys.executable, "-m", "headrace", "resume", str(tmp_path / "run"), "--steps", more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    after = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert after["environment_steps"] >= int(more)
    assert after["replay_size"] >= 0.9 * min(5_000, summary["replay_size"] + 2_000)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_other_signals_save_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    wait_for(lambda: learning(tmp_path))
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped_by"] == "interrupt"
    assert list((tmp_path / "run").glob("checkpoints/*-updates-*"))


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(lambda: learning(tmp_path))
    process.send_signal(signal.SIGHUP)
    steps = (tmp_path / "run" / "metrics.jsonl").stat().st_size
    wait_for(lambda: (tmp_path / "run" / "metrics.jsonl").stat().st_size > steps)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130


@pytest.mark.slow
def test_ctrl_c_before_the_first_update_can_be_resumed_too(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000", "--learning-starts", "4900")
    wait_for(lambda: bool(actors(process.pid)))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    resume = [sys.executable, "-m", "headrace", "resume", str(tmp_path / "run"), "--steps", "8000"]
    resumed = subprocess.run(resume, capture_output=True, text=True, timeout=120, check=False)
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.slow
def test_a_closed_output_does_not_end_the_run(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "5000", "--final-evaluation-episodes", "1")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=120)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped_by"] == "steps"


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Hanging", "--topology", "serial", *SMALL[2:], "--steps", "5000")
    wait_for(lambda: (tmp_path / "run" / "config.json").exists() and len(roles(process.pid)) == 1)
    wait_for(lambda: idle(process.pid))  # in the environment, which hangs from its 7th step on
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_run_directory_that_is_renamed_ends_the_run_and_is_resumed_there(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    wait_for(lambda: learning(tmp_path))
    (tmp_path / "run").rename(tmp_path / "moved")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert re.fullmatch(rf"headrace: error: run directory {tmp_path}/run .*headrace resume {tmp_path}/moved\n", err)
    assert not (tmp_path / "run").exists()
    state = json.loads(next((tmp_path / "moved").glob("checkpoints/*-updates-*/state.json")).read_text())
    more = str(state["environment_steps"] + 500)
    resume = [sys.executable, "-m", "headrace", "resume", str(tmp_path / "moved"), "--steps", more]
    resumed = subprocess.run(resume, capture_output=True, text=True, timeout=120, check=False)
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.slow
def test_a_run_directory_that_is_removed_ends_the_run(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *SMALL, "--steps", "10000000")
    wait_for(lambda: learning(tmp_path))
    process.send_signal(signal.SIGSTOP)  # or it might write a checkpoint meanwhile
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    shutil.rmtree(tmp_path / "run")
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert re.fullmatch(rf"headrace: error: run directory {tmp_path}/run was removed.*\n", err)
    assert sorted(path.name for path in tmp_path.iterdir()) == []


def test_a_run_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    arguments = [f"{TOY}Corridor", *SMALL, "--steps", "500", "--final-evaluation-episodes", "0"]
    assert train(tmp_path, *arguments).returncode == 0
    before = (tmp_path / "run" / "summary.json").read_bytes()
    again = train(tmp_path, *arguments)
    assert again.returncode == 2
    assert "holds another run" in again.stderr
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_a_broken_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"{TOY}Corridor", *SMALL, "--steps", "500", "--final-evaluation-episodes", "0"]
    assert train(tmp_path, *arguments).returncode == 0
    [checkpoint] = (path.parent for path in (tmp_path / "run" / "checkpoints").glob("*/manifest.json"))
    for name in ("learner.safetensors", "replay.headrace", "state.json", "manifest.json"):
        whole = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(whole[:-7])
        assert main(["resume", str(tmp_path / "run"), "--steps", "1000000"]) == 2, name
        assert re.fullmatch(r"headrace: error: .*broken.*\n", capsys.readouterr().err), name
        (checkpoint / name).write_bytes(whole)


def test_no_disk_space_is_one_clear_line_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        limit_file_size = "ulimit -f 200; "  # without the right to mount: the same refusal from a limit, in KiB
    else:
        limit_file_size = ""
    try:
        command = f"{limit_file_size} exec {sys.executable} -m headrace train CartPole-v1 " + " ".join(
            [*SMALL, "--steps", "30000", "--replay-capacity", "30000", "--run-dir", str(disk / "run")]
        )
        ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 2, ended.stderr
        kept = newest_checkpoint(disk / "run" / "checkpoints")
        spec = kept.state.spec
        table = Table(Signature(spec.observation_shape, spec.observation_dtype), capacity=30_000)
        kept.restore_replay(table)
        assert len(table) > 0
        assert kept.learner()
        assert kept.policy()
    finally:
        subprocess.run(["umount", disk], capture_output=True, check=False)
    assert re.search(r"headrace: error: .*(No space left|File too large)", ended.stderr)
    assert "Traceback" not in ended.stderr
