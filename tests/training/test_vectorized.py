"""Whole small runs in vectorized environments."""

import dataclasses

import pytest

from headrace import A3C
from headrace.report.display import QuietDisplay
from headrace.training import resume

from .conftest import SMALL, Train, tensors

CARTPOLE = "vector/CartPole-v1"
A3C_SMALL = A3C(hidden=(32,))


class Listening(QuietDisplay):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("topology", "algorithm"), [("apex", SMALL), pytest.param("hogwild", A3C_SMALL, marks=pytest.mark.slow)]
)
def test_actors_and_workers_step_them(train: Train, topology: str, algorithm: A3C) -> None:
    result = train(topology, algorithm=algorithm, environment=CARTPOLE, steps=2_000, final_evaluation_episodes=2)
    assert result.summary["environment_steps"] >= 2_000
    assert result.summary["episodes"] > 20
    assert not result.summary["exits"]
    assert 5 < result.summary["mean_return"] <= 500


def test_a_serial_run_is_repeatable_and_a_resumed_one_begins_new_episodes(train: Train) -> None:
    """Resets are no environment steps, so these are not a multiple of the two environments."""
    settings = {
        "environment": CARTPOLE,
        "algorithm": dataclasses.replace(SMALL, n_step=2),
        "final_evaluation_episodes": 0,
    }
    first, again = (train("serial", name=name, steps=801, **settings) for name in ("first", "again"))
    ours, theirs = tensors(first), tensors(again)
    assert all((ours[name] == theirs[name]).all() for name in ours)
    assert first.summary["environment_steps"] in (801, 802)
    assert first.summary["replay_size"] <= first.summary["environment_steps"]
    display = Listening()
    with first.run.open(first.path, writing=True) as run:
        resumed = resume(run, display, steps=1_200)
    assert resumed.summary["environment_steps"] in (1_200, 1_201)
    assert display.said[:1] == [
        "vector/CartPole-v1 can't repeat its open episodes: each environment begins a new one, and its last "
        "transitions, up to one chunk, are lost"
    ]
