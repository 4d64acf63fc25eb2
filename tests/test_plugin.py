"""The example of an algorithm in another package: its target by hand, and whole runs of the installed package."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec

SOURCE = Path(__file__).parents[1] / "examples/plugin"
SMALL = [
    "--hidden",
    "16",
    "--batch-size",
    "16",
    "--learning-starts",
    "64",
    "--replay-capacity",
    "2000",
    "--samples-per-step",
    "4",
]


@pytest.fixture(scope="module")
def plugin() -> Any:
    """The example's module."""
    place = importlib.util.spec_from_file_location("headrace_munchausen", SOURCE / "headrace_munchausen.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(SOURCE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder / "site", folder / "source"], check=True, timeout=120)
    return folder / "site"


def headrace(installed: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "headrace", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_target_by_hand(plugin: Any) -> None:
    """Q(s) = (1, 0) and Q(s') = (0, 2) at tau 0.5: probabilities follow from e^2 and e^4."""
    settings = plugin.MunchausenDQN(hidden=(), temperature=0.5, munchausen_weight=0.9, log_policy_floor=-1.0)
    updater = settings.make_updater(EnvironmentSpec((2,), "float32", 2), "cpu", 0)
    state = updater.state()
    state["target.q.weight"][:], state["target.q.bias"][:] = [[1.0, 0.0], [0.0, 2.0]], 0
    updater.load(state)
    observation, next_observation = (np.array([row] * 2, np.float32) for row in ([1, 0], [0, 1]))
    reward, discount = (np.array(values, np.float32) for values in ([1, 1], [0.5, 0]))
    target = updater.target(observation, next_observation, np.array([0, 1]), reward, discount)
    log_pi = [2 - log(exp(2) + 1), -log(exp(2) + 1)]
    soft_value = 0.5 * log(1 + exp(4))  # tau log sum exp(Q / tau), which the expectation equals
    assert log_pi[1] * 0.5 < -1 + 0.1  # near the floor, and below it
    expected = [1 + 0.9 * 0.5 * log_pi[0] + 0.5 * soft_value, 1 + 0.9 * max(-1.0, 0.5 * log_pi[1])]
    assert target.tolist() == pytest.approx(expected, rel=1e-5)


def test_settings_out_of_range_are_named(plugin: Any) -> None:
    for name, value in (("temperature", 0), ("munchausen_weight", 1.5), ("log_policy_floor", 0.1), ("n_step", 3)):
        with pytest.raises(ConfigError, match=rf"^{name} is"):
            plugin.MunchausenDQN(**{name: value})


def test_the_example_is_short() -> None:
    assert len((SOURCE / "headrace_munchausen.py").read_text().splitlines()) < 100


@pytest.mark.parametrize(
    "topology",
    [["serial"], ["apex", "--actors", "1"], pytest.param(["hogwild", "--workers", "1"], marks=pytest.mark.slow)],
    ids=lambda words: words[0],
)
def test_the_installed_algorithm_trains(installed: Path, tmp_path: Path, topology: list[str]) -> None:
    own = ["--algorithm", "munchausen-dqn", "--temperature", "0.05", "--topology", *topology]
    limits = ["--steps", 1_000, "--final-evaluation-episodes", 2, "--run-dir", tmp_path / "run"]
    result = headrace(installed, "train", "CartPole-v1", *own, *SMALL, *limits)
    assert result.returncode == 0, result.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["algorithm"]["name"] == "munchausen-dqn"
    assert config["algorithm"]["temperature"] == 0.05
    assert json.loads((tmp_path / "run/summary.json").read_text())["learner_steps"] > 10


def test_help_and_presets_know_the_installed_algorithm(installed: Path) -> None:
    shown = headrace(installed, "train", "CartPole-v1", "--algorithm", "munchausen-dqn", "--help").stdout
    assert "--munchausen-weight" in shown
    assert "DQN whose rewards include the log policy" in " ".join(shown.replace("│", " ").split())
    assert headrace(installed, "presets", "CartPole-v1", "--algorithm", "munchausen-dqn").returncode == 0
    missing = headrace(Path("nowhere"), "train", "CartPole-v1", "--algorithm", "munchausen-dqn")
    assert missing.returncode == 2
    assert "munchausen-dqn" in missing.stderr
