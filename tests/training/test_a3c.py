"""Whole small runs of A3C in the serial topology, which make it A2C."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from headrace import A3C, Serial
from headrace.errors import ConfigError
from headrace.report.display import QuietDisplay
from headrace.settings import preset
from headrace.training import resume

from . import conftest
from .conftest import Train, tensors

TARGET = "headrace.environments.toy:Target"


@pytest.fixture
def a3c(train: Train, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a small network with 4 environments."""
    monkeypatch.setattr(conftest, "SMALL", A3C(hidden=(32,), n_step=8, learning_rate=3e-3))
    monkeypatch.setitem(conftest.TOPOLOGIES, "serial", Serial(envs_per_actor=4))
    return train


def test_learns_cart_pole(a3c: Train) -> None:
    known = preset("CartPole-v1", "a3c")
    result = a3c(
        "serial",
        environment="CartPole-v1",
        algorithm=dataclasses.asdict(known.algorithm),
        steps=200_000,
        until_score=475,
        evaluation_period_steps=20_000,
    )
    assert result.summary["solved"]
    assert result.summary["algorithm"] == "a3c"
    assert result.summary["samples_per_insert"] == 1.0


def test_continuous_actions_are_learned(a3c: Train) -> None:
    algorithm = {"discount": 0.9, "entropy_bonus": 0.0}
    result = a3c("serial", environment=TARGET, algorithm=algorithm, steps=30_000, final_evaluation_episodes=100)
    assert result.summary["mean_return"] >= 9.0  # 9.81 is the most, 6.67 to stand still


def test_serial_is_the_same_bit_for_bit(a3c: Train) -> None:
    settings = {"steps": 2_000, "final_evaluation_episodes": 5, "evaluation_period_steps": 500}
    first, second = (a3c("serial", name=name, **settings) for name in ("first", "second"))
    other = a3c("serial", name="other", seed=1, **settings)
    ours, theirs, others = tensors(first), tensors(second), tensors(other)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert not np.array_equal(ours["parameters"], others["parameters"])
    assert first.summary["learner_steps"] == 63  # of 32 transitions each
    assert first.summary["mean_return"] == second.summary["mean_return"]


class Messages(QuietDisplay):
    """Records its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("trunk", ["shared", "separate"])
@pytest.mark.parametrize("environment", [TARGET, "CartPole-v1"])
def test_resume_equals_never_having_stopped(a3c: Train, environment: str, trunk: str) -> None:
    settings: dict[str, Any] = {
        "environment": environment,
        "final_evaluation_episodes": 3,
        "algorithm": {"trunk": trunk},
    }
    whole = a3c("serial", name="whole", steps=2_001, **settings)
    half = a3c("serial", name="half", steps=1_001, **settings)
    display = Messages()
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, display, steps=2_001)
        ours, theirs = tensors(whole), tensors(resumed)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    for field in ("environment_steps", "learner_steps", "episodes", "mean_return", "samples_per_insert"):
        assert resumed.summary[field] == whole.summary[field]
    assert not [text for text in display.said if "gather new experience" in text]


def test_ape_x_is_refused(a3c: Train) -> None:
    with pytest.raises(ConfigError) as caught:
        a3c("apex", steps=1_000)
    assert str(caught.value) == (
        "algorithm is a3c, which learns from rollouts of its current policy: topology serial or "
        "parameter-server or lock or hogwild or ad-psgd is required"
    )
