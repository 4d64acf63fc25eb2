"""A stand-in for training, for the tests of this folder."""

import sys
from types import SimpleNamespace

import pytest

import headrace


class FakeTraining:
    """Stands where `headrace.training` does; remembers its calls and answers as it is told."""

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

    def train(self, config, run, display):
        self._answer("train", config, run, display)
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
        return iter(self.frames), 30

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
