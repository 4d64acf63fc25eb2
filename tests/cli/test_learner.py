"""`headrace learner` and `headrace actor` in separate processes, through a server with a token."""

import json
import signal
import subprocess
import sys

import pytest

from headrace.cli.main import main
from headrace.settings import RunConfig, ServerConfig

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


def test_the_printed_actor_command_omits_the_password(training, capsys):
    assert main(["learner", "CartPole-v1", "--server", "redis://me:pass@h", "--run", "a", "--actors", "3"]) == 0
    out, err = capsys.readouterr()
    assert "headrace actor --server redis://me@h --run a --actors 3" in " ".join(out.split())
    assert "the password is not shown; actors need it too" in out
    assert "pass@" not in out + err
    assert main(["learner", "CartPole-v1", "--server", "redis://me@h", "--run", "a", "--actors", "3"]) == 0
    assert "the password is not shown" not in capsys.readouterr().out


@pytest.mark.parametrize(("algorithm", "actors"), [("dqn", 7), ("dyna-q", 1)])
def test_the_default_number_of_actor_slots(training, capsys, monkeypatch, algorithm, actors):
    monkeypatch.setattr("headrace.topologies.config.available_cores", lambda: 8)
    assert main(["learner", "CartPole-v1", "--algorithm", algorithm, "--server", "tcp://h:1"]) == 0
    assert f"--actors {actors}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["learner", "CartPole-v1"],
            "server is missing; headrace learner needs the address of a server that actors can",
        ),
        (["learner"], "learner needs an environment: headrace learner ENV, such as LunarLander-v3"),
        (["learner", "X", "--server", "h:1"], "server is h:1; it must be tcp://, unix: or redis://"),
        (
            ["train", "X", "--server", "tcp://h:1", "--topology", "serial"],
            "server is tcp://h:1 and topology is serial, which is all on one machine",
        ),
        (
            ["train", "X", "--server", "redis://:pass@h", "--topology", "serial"],
            "server is redis://h and topology is serial, which is all on one machine",
        ),
        (
            ["learner", "X", "--server", "tcp://h:1", "--topology", "parameter-server"],
            "topology is parameter-server; with headrace learner, whose actors are started separately, it must be apex",
        ),
        (["train", "X", "--run", "a"], "run is a; it must be left out where no server is given"),
        (["train", "X", "--server", "tcp://h:1", "--run", "a/b"], "run is a/b; it must be 1 to 64 letters"),
        (["actor"], "server is missing; it is required: headrace actor --server ADDRESS"),
        (["actor", "--server", "tcp://h:1", "--actors", "0"], "actors is 0; it must be above 0"),
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
