"""`headrace learner`, `headrace actor` and `headrace worker` in separate processes, through a server with a token."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.settings import RunConfig, ServerConfig
from headrace.training.separate_actors import how_to_start

from ..waiting import wait_for

TRAIN = ["CartPole-v1", "--seed", "1", "--envs-per-actor", "4", "--learning-starts", "200", "--replay-capacity", "5000"]


def begin(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # so that communicate() has what readline() leaves
    )


def test_learner_trains_with_separately_started_actors(serve, token_file, tmp_path, headrace_command):
    server = serve("--quiet", "--token-file", str(token_file))
    flags = ["--server", server.address, "--token-file", token_file, "--run", "pole"]
    actor = begin("actor", *flags, "--log-dir", tmp_path / "logs")
    learner = headrace_command(
        "learner", *TRAIN, *flags, "--steps", "600", "--actors", "1", "--final-evaluation-episodes", "2",
        "--run-dir", tmp_path / "run",
    )  # fmt: skip
    assert (learner.returncode, learner.stderr) == (0, "")
    assert (
        "actors get all settings from the server; start them on any machine that can reach it:\n"
        f"  headrace actor --server {server.address} --run pole --token-file {token_file} --actors 1\n"
    ) in learner.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["environment_steps"] >= 600
    assert summary["learner_steps"] > 0
    out, err = actor.communicate(timeout=120)
    assert (actor.returncode, err) == (0, b"")
    assert b"1 actor in CartPole-v1" in out
    assert out.endswith(b"the run has ended\n")
    assert server.stop() == (0, "", "")


def progress_of(run):
    """The records of a run's progress so far."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [record for record in records if "environment_steps" in record]


def await_progress(run, fits):
    """Waits for a record of the run's progress."""
    wait_for(lambda: any(map(fits, progress_of(run))), seconds=240)


@pytest.mark.slow
def test_learner_trains_with_workers_of_two_commands(serve, token_file, tmp_path):
    server = serve("--quiet", "--token-file", str(token_file))
    flags = ["--server", server.address, "--token-file", token_file, "--run", "pole"]
    workers = [begin("worker", *flags, "--log-dir", tmp_path / f"logs-{number}") for number in range(2)]
    run = tmp_path / "run"
    learner = begin(
        "learner", "CartPole-v1", "--topology", "parameter-server", "--workers", "2", "--envs-per-worker", "4",
        "--learning-starts", "200", *flags, "--steps", "1G", "--run-dir", run,
    )  # fmt: skip
    await_progress(run, lambda record: record.get("actors_alive") == 2 and record["learner_steps"] > 0)
    learner.send_signal(signal.SIGINT)
    out, err = learner.communicate(timeout=120)
    assert (learner.returncode, err) == (130, b"")
    assert (
        "workers get all settings from the server; start them on any machine that can reach it:\n"
        f"  headrace worker --server {server.address} --run pole --token-file {token_file} --workers 2\n"
    ) in out.decode()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["environment_steps"] > 200
    assert summary["workers"]["updates"] > 0
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert (worker.returncode, err) == (0, b"")
        assert b"1 worker in CartPole-v1" in out
        assert out.endswith(b"the run has ended\n")
    assert server.stop() == (0, "", "")


def child_of(process):
    """The process id of the role that a `headrace worker` has started."""

    def look():
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                if b"headrace.launch.child" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        return None

    return wait_for(look)


@pytest.mark.slow
def test_separate_workers_are_restarted_when_they_die_and_with_their_learner(serve, tmp_path):
    def train_on():
        steps = max((record["environment_steps"] for record in progress_of(run)), default=0) + 500
        await_progress(run, lambda record: record["environment_steps"] >= steps)

    server, run = serve("--quiet"), tmp_path / "run"
    worker = begin("worker", "--server", server.address, "--log-dir", tmp_path / "logs")
    learner = begin(
        "learner", "CartPole-v1", "--topology", "parameter-server", "--workers", "1", "--learning-starts", "200",
        "--server", server.address, "--steps", "1G", "--run-dir", run, "--checkpoint-period-seconds", "1",
    )  # fmt: skip
    train_on()
    os.kill(child_of(worker), signal.SIGKILL)
    train_on()
    while not list((run / "checkpoints").glob("*/state.json")):
        train_on()
    learner.kill()
    learner.communicate(timeout=120)
    learner = begin("resume", run)
    train_on()
    learner.send_signal(signal.SIGINT)
    out, err = worker.communicate(timeout=120)
    assert (worker.returncode, err) == (0, b"")
    assert [line.split(" (")[0] for line in out.decode().splitlines()[-3:]] == [
        "separate-worker 0 died",
        "the learner was restarted; restarting its workers",
        "the run has ended",
    ]
    out, _ = learner.communicate(timeout=120)
    assert learner.returncode == 130
    assert f"headrace worker --server {server.address} --workers 1\n" in out.decode()
    assert server.stop() == (0, "", "")


def test_an_actor_that_waits_for_a_learner_can_be_interrupted(serve, tmp_path):
    server = serve("--quiet")
    actor = begin("actor", "--server", server.address, "--log-dir", tmp_path / "logs")
    assert actor.stdout.readline() == b"this run has no learner yet; waiting for it\n"
    actor.send_signal(signal.SIGTERM)
    assert actor.communicate(timeout=120) == (b"", b"")
    assert actor.returncode == 130


def test_train_on_a_server(training):
    words = ["--server", "tcp://10.0.0.1:7447", "--run", "a", "--token-file", "/t"]
    assert main(["train", "CartPole-v1", *words]) == 0
    assert main(["learner", "CartPole-v1", *words]) == 0
    (train, learner) = training.calls
    assert train[1][0].server == ServerConfig("tcp://10.0.0.1:7447", "a", type(train[1][0].server.token_file)("/t"))
    assert learner[1][0] == train[1][0]
    assert (train[2], learner[2]) == ({"local_actors": True}, {"local_actors": False})
    assert RunConfig.from_json(learner[1][0].to_json()) == learner[1][0]


def hint(training, *words):
    """What the run of `headrace learner` says about its actors or workers."""
    assert main(["learner", "CartPole-v1", *words]) == 0
    return how_to_start(training.calls[-1][1][0])


def test_the_printed_actor_command_omits_the_password(training, capsys):
    said = hint(training, "--server", "redis://me:pass@h", "--run", "a", "--actors", "3")
    assert said.splitlines()[1:] == [
        "  headrace actor --server redis://me@h --run a --actors 3",
        "the password is not shown; actors need it too, in the address or, better, by --token-file FILE",
    ]
    assert "pass@" not in "".join(capsys.readouterr())
    assert "password" not in hint(training, "--server", "redis://me@h", "--run", "a", "--actors", "3")


def test_the_printed_command_of_workers(training):
    said = hint(training, "--topology", "parameter-server", "--workers", "3", "--server", "tcp://h:1")
    assert said.endswith("\n  headrace worker --server tcp://h:1 --workers 3")


@pytest.mark.parametrize(("algorithm", "actors"), [("dqn", 7), ("dyna-q", 1)])
def test_the_default_number_of_actor_slots(training, monkeypatch, algorithm, actors):
    monkeypatch.setattr("headrace.topologies.apex.config.available_cores", lambda: 8)
    assert hint(training, "--algorithm", algorithm, "--server", "tcp://h:1").endswith(f" --actors {actors}")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["learner", "CartPole-v1"],
            "server is missing; headrace learner needs the address of a server that actors can",
        ),
        (["learner"], "learner needs an environment: headrace learner ENV, such as LunarLander-v3"),
        (["learner", "X", "--server", "h:1"], "server is h:1; it must be tcp://, unix:, dpdk: or redis://"),
        (
            ["train", "X", "--server", "tcp://h:1", "--topology", "serial"],
            "server is tcp://h:1 and topology is serial, which is all on one machine",
        ),
        (
            ["train", "X", "--server", "redis://:pass@h", "--topology", "serial"],
            "server is redis://h and topology is serial, which is all on one machine",
        ),
        (
            ["learner", "CartPole-v1", "--topology", "parameter-server"],
            "server is missing; headrace learner needs the address of a server that workers can",
        ),
        (
            ["learner", "X", "--topology", "hogwild"],
            "topology is hogwild, which is all on one machine: headrace train runs it",
        ),
        (
            ["learner", "X", "--server", "tcp://h:1", "--topology", "hogwild"],
            "server is tcp://h:1 and topology is hogwild, which is all on one machine",
        ),
        (["train", "X", "--run", "a"], "run is a; it must be left out where no server is given"),
        (["train", "X", "--server", "tcp://h:1", "--run", "a/b"], "run is a/b; it must be 1 to 64 letters"),
        (["actor"], "server is missing; it is required: headrace actor --server ADDRESS"),
        (["worker"], "server is missing; it is required: headrace worker --server ADDRESS"),
        (["actor", "--server", "tcp://h:1", "--actors", "0"], "actors is 0; it must be above 0"),
        (["worker", "--server", "tcp://h:1", "--workers", "0"], "workers is 0; it must be above 0"),
        (["worker", "--server", "tcp://h:1", "--actors", "2"], "--actors is not an option of headrace worker"),
        (["actor", "--server", "tcp://h:1", "--steps", "5"], "--steps is not an option of headrace actor"),
        (
            ["actor", "--server", "tcp://127.0.0.1:9", "--token-file", "/no/token"],
            "token_file is /no/token; it must be a file that can be read",
        ),
    ],
)
def test_mistakes(training, words, complaint, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"headrace: error: {complaint}")
    assert err.count("\n") == 1
    assert training.calls == []


@pytest.mark.parametrize("kind", ["actor", "worker"])
@pytest.mark.parametrize(
    ("logs", "complaint"),
    [("file", "log_dir is file; it must be a directory"), ("file/logs", "can't write file/logs: Not a directory")],
)
def test_logs_that_cannot_be_written_are_refused_before_a_server_is_asked(
    kind, logs, complaint, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    monkeypatch.setattr("headrace.launch.separate_roles.connect_role", None)  # a call would fail
    assert main([kind, "--server", "tcp://127.0.0.1:9", "--log-dir", logs]) == 2
    assert capsys.readouterr().err == f"headrace: error: {complaint}\n"
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("existed", [True, False])
def test_a_directory_for_logs_that_stays_empty_is_removed_unless_it_existed(existed, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.settings.server.RECONNECT_SECONDS", 0.2)
    logs = tmp_path / "logs"
    if existed:
        logs.mkdir()
    assert main(["actor", "--server", "tcp://127.0.0.1:9", "--log-dir", str(logs)]) == 2
    assert logs.exists() == existed
