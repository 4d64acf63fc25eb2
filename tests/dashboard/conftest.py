"""Run directories as training writes them, for the tests of this folder."""

import json
from pathlib import Path
from typing import Any

import pytest

CONFIG = {
    "environment": "Lander-v3",
    "until_score": 200.0,
    "seed": 7,
    "algorithm": {"name": "dqn", "batch_size": 128, "samples_per_step": 16.0},
    "topology": {"name": "apex", "actors": 2},
    "server": {"address": None},
}


class WrittenRun:
    """A run directory that a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(CONFIG))

    def append(self, kind: str, seconds: float, **fields: Any) -> None:
        self.append_text(json.dumps({"kind": kind, "seconds": seconds, **fields}) + "\n")

    def append_text(self, text: str) -> None:
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(text)

    def progress(self, seconds: float, **fields: Any) -> None:
        values = {
            "environment_steps": round(1_000 * seconds), "learner_steps": round(100 * seconds), "mean_return": seconds,
            "evaluation_return": None, "best_evaluation": None, "steps_per_second": 1_000.0,
            "learner_steps_per_second": 100.0, "samples_per_insert": 16.0, "staleness": 3.5, "bottleneck": "learner",
            "actor_times": {"environment": 0.25, "blocked": 0.75}, "learner_times": {"train": 1.0}, "actors_alive": 2,
            "actors_total": 2, "role": "actor", "replay_size": 500, "replay_capacity": 1_000, "policy_version": 9,
        }  # fmt: skip
        self.append("progress", seconds, **(values | fields))

    def summary(self, **fields: Any) -> None:
        (self.path / "summary.json").write_text(json.dumps({"stopped_by": "steps", "mean_return": 12.5} | fields))


@pytest.fixture
def write_run(tmp_path):
    def write(name: str) -> WrittenRun:
        return WrittenRun(tmp_path / "runs" / name)

    (tmp_path / "runs").mkdir()
    return write


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Every call reads the files, so that no test waits for the pauses between two reads."""
    monkeypatch.setattr("headrace.dashboard.runs._SCAN_SECONDS", 0.0)
    monkeypatch.setattr("headrace.dashboard.runs._READ_SECONDS", 0.0)
