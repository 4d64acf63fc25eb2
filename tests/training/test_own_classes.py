"""Algorithms and topologies of a user's module, which no package registers."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.algorithms.registry import ALGORITHMS
from headrace.cli.main import main
from headrace.errors import ConfigError
from headrace.settings import RunConfig
from headrace.topologies.registry import TOPOLOGIES

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar
from headrace import DQN, Apex

@dataclass(frozen=True)
class Mine(DQN):
    name: ClassVar[str] = "mine"
    extra: int = 3

@dataclass(frozen=True)
class Ring(Apex):
    name: ClassVar[str] = "ring"

Other = 3
"""
SMALL = ["--hidden", "8", "--learning-starts", "50", "--batch-size", "16", "--replay-capacity", "1000", "--actors", "1"]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current directory."""
    (tmp_path / "own_classes.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_classes"
    ALGORITHMS.forget()
    TOPOLOGIES.forget()


def test_they_train_in_several_processes_and_their_run_is_resumed(module: str, tmp_path: Path) -> None:
    parts = ["--algorithm", f"{module}:Mine", "--topology", f"{module}:Ring", "--extra", "5"]
    words = [*parts, *SMALL, "--steps", "300", "--final-evaluation-episodes", "1", "--run-dir", "run", "--quiet"]
    assert main(["train", "CartPole-v1", *words]) == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["algorithm"]["name"], config["algorithm"]["extra"]) == (f"{module}:Mine", 5)
    assert config["topology"]["name"] == f"{module}:Ring"
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["algorithm"], summary["topology"]) == ("mine", "ring")
    assert main(["resume", "run", "--steps", str(summary["environment_steps"] + 100), "--quiet"]) == 0
    assert main(["evaluate", "run", "--episodes", "1"]) == 0


def test_from_python(module: str, tmp_path: Path) -> None:
    algorithm = import_module(module).Mine(hidden=(8,), learning_starts=50, batch_size=16)
    rules: dict[str, Any] = {"steps": 300, "final_evaluation_episodes": 1, "run_dir": tmp_path / "run", "quiet": True}
    headrace.train("CartPole-v1", algorithm=algorithm, topology=headrace.Serial(), **rules)
    assert RunConfig.from_json((tmp_path / "run/config.json").read_text()).algorithm == algorithm


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("own_classes:Other", "algorithm own_classes:Other is 3; a subclass of Algorithm is required"),
        ("own_classes:Lost", "algorithm own_classes:Lost can't be loaded: AttributeError"),
        ("nowhere_at_all:Mine", "algorithm nowhere_at_all:Mine can't be loaded: ModuleNotFoundError"),
        ("own_classes:Ring", "a subclass of Algorithm is required"),
        (":", "algorithm : can't be loaded: ValueError"),
    ],
)
def test_a_mistake_is_one_line(module: str, place: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "CartPole-v1", "--algorithm", place, "--steps", "300"]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


def test_a_class_of_a_script_is_refused(monkeypatch: pytest.MonkeyPatch, module: str, tmp_path: Path) -> None:
    kind = import_module(module).Mine
    monkeypatch.setattr(kind, "__module__", "__main__")
    with pytest.raises(ConfigError, match="an object of __main__:Mine, which other processes can't import"):
        headrace.train("CartPole-v1", algorithm=kind(), steps=300, run_dir=tmp_path / "run")
