"""Runs with a user's network."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.launch.simulated import Simulated
from headrace.training import export
from headrace.training.checkpoint import newest_checkpoint

MODULE = """
from torch import nn

def build(spec, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(spec.input_shape[0], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, outputs))

def too_wide(spec, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(spec.input_shape[0], outputs + 1))
"""


@pytest.fixture(autouse=True)
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current directory."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    (tmp_path / "my_networks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("topology", ["serial", "apex"])
def test_it_learns_the_corridor(train: Any, tmp_path: Path, topology: str) -> None:
    result = train(
        topology,
        algorithm={"network": "my_networks:build"},
        launcher=Simulated(),
        until_score=1.0,
        steps=40_000,
        evaluation_period_steps=1_000,
    )
    assert result.evaluate(episodes=2).returns == [1.0, 1.0]
    assert export(result.run, tmp_path / "policy.onnx") < 1e-4
    (tmp_path / "my_networks.py").unlink()  # its users need only the graph
    observation = np.eye(8, dtype=np.float32)  # the agent in each cell
    actions = [headrace.load(path).act(observation).tolist() for path in (result.path, tmp_path / "policy.onnx")]
    assert actions[0] == actions[1]


def test_workers_share_its_parameters(train: Any, tmp_path: Path) -> None:
    result = train("hogwild", algorithm={"network": "my_networks:build"}, steps=400, final_evaluation_episodes=2)
    assert result.summary["learner_steps"] > 0
    assert export(result.run, tmp_path / "policy.onnx") < 1e-4


def test_int8_actors_say_what_they_compute(capsys: Any) -> None:
    words = ["--precision", "int8", "--actors", "1", "--steps", "1000", "--final-evaluation-episodes", "1"]
    assert main(["train", "CartPole-v1", "--network", "my_networks:build", *words]) == 0
    said = "precision int8 computes 3 of my_networks:build in integers, and other layers in fp32"
    assert said in " ".join(capsys.readouterr().out.split())


def test_it_resumes_with_its_parameters(train: Any) -> None:
    def state() -> dict[str, Any]:
        return dict(newest_checkpoint(result.run.checkpoints_path).learner())

    result = train("serial", algorithm={"network": "my_networks:build"}, steps=500)
    before = state()
    assert main(["resume", str(result.path), "--steps", "1000", "--quiet"]) == 0
    after = state()
    assert {name: value.shape for name, value in after.items()} == {name: v.shape for name, v in before.items()}
    weight = "target.module.1.weight"
    assert np.any(before[weight] != after[weight])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--network", "my_networks:too_wide"], "its output for 5 observations is torch.float32 [5, 3]; it must be"),
        (["--network", "my_networks:built"], 'module "my_networks" has no function "built"'),
        (["--network", "my_networks:build", "--learner-engine", "native"], "computes no torch modules"),
        (["--network", "resnet"], "it must be one of auto, mlp, nature, grid, minatar, ong, or package"),
    ],
)
def test_a_fault_is_one_line_and_leaves_nothing(words: list[str], line: str, capsys: Any) -> None:
    assert main(["train", "CartPole-v1", "--topology", "serial", "--steps", "100", *words]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert not list(Path().glob("runs/*"))
