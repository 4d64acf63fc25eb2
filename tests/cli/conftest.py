"""A stand-in for training, and standalone servers, for the tests of this folder."""

import contextlib
import re
import secrets
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import headrace


class FakeTraining:
    """Replaces `headrace.training`; records its calls and returns what the test sets."""

    def __init__(self):
        self.calls = []
        self.summary = {
            "environment": "CartPole-v1",
            "environment_steps": 12_345,
            "learner_steps": 678,
            "episodes": 90,
            "wall_seconds": 65.0,
            "mean_return": 487.25,
            "std_return": 3.0,
            "evaluation_episodes": 100,
            "seconds_to_score": 42.0,
            "stopped_by": "score",
        }
        self.error = None
        self.frames = []

    def _answer(self, name, *arguments, **options):
        self.calls.append((name, arguments, options))
        if self.error is not None:
            raise self.error

    def train(self, config, run, display, **options):
        self._answer("train", config, run, display, **options)
        return SimpleNamespace(run=run, summary=self.summary)

    def resume(self, run, display, **options):
        self._answer("resume", run, display, **options)
        return SimpleNamespace(run=run, summary=self.summary)

    def evaluate(self, run, **options):
        self._answer("evaluate", run, **options)
        moment = SimpleNamespace(version=9, environment_steps=12_345)
        return SimpleNamespace(
            returns=[1.0, 3.0], lengths=[10, 20], mean=2.0, std=1.5, minimum=1.0, maximum=3.0, moment=moment
        )

    def record_frames(self, run, **options):
        self._answer("record_frames", run, **options)
        return contextlib.nullcontext((iter(self.frames), 30))

    def export(self, run, path):
        self._answer("export", run, path)
        return 2.5e-7


@pytest.fixture
def training(monkeypatch, tmp_path):
    """A fake of `headrace.training`, in an empty working directory."""
    fake = FakeTraining()
    monkeypatch.setitem(sys.modules, "headrace.training", fake)
    monkeypatch.setattr(headrace, "training", fake, raising=False)
    monkeypatch.chdir(tmp_path)
    return fake


class ServeCommand:
    """`headrace serve` in a separate process, listening on a free port of this machine."""

    def __init__(self, *options, listen=("tcp://127.0.0.1:0",)):
        words = [word for address in listen for word in ("--listen", address)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "serve", *words, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # so that communicate() has what readline() leaves
        )
        lines = [self.line() for _ in listen]
        self.addresses = [re.fullmatch(r"listening on (\S+)\n", line)[1] for line in lines]
        self.address = self.addresses[0]

    def line(self):
        """The next line of its output."""
        return self.process.stdout.readline().decode()

    def stop(self, number=signal.SIGTERM):
        """Its exit code and its remaining output on both streams."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def serve():
    """Starts servers; those that the test leaves are killed."""
    started = []

    def start(*options, **settings):
        started.append(ServeCommand(*options, **settings))
        return started[-1]

    yield start
    for command in started:
        command.process.kill()
        command.process.communicate()


@pytest.fixture
def token_file(tmp_path):
    """A token that only its owner may read."""
    path = tmp_path / "token"
    path.write_text(secrets.token_hex(32) + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def headrace_command():
    """Runs a command in a separate process, for as long as two minutes."""

    def run(*words, **options):
        return subprocess.run(
            [sys.executable, "-m", "headrace", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )

    return run
