"""Predictions from simulated runs."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from headrace import DQN, Hogwild, Simulated
from headrace.settings import RunConfig
from headrace.simulation.capacity import Prediction, Score, find_knee, name_bottleneck, predict, write_tables

SERVED = {"lock_wait_seconds": 0, "pull_seconds": 1, "apply_seconds": 7}
CORRIDOR = "headrace.environments.toy:Corridor"


def made(cores: int, steps_per_second: float) -> Prediction:
    return Prediction(cores, steps_per_second, 10.0, 1.0, 0.5, "all compute", 2.0, 100, 20, 0.5, "time")


@pytest.mark.parametrize(
    ("speeds", "knee"),
    [
        ([100, 200, 400], 8),
        ([100, 190, 200], 4),
        ([100, 110, 400], 2),
        ([100, 150, 150], 4),
        ([0, 0, 0], 2),
        ([0, 100, 200], 8),
    ],
)
def test_the_knee_is_where_more_cores_are_less_than_half_as_useful(speeds: list[float], knee: int) -> None:
    assert find_knee([made(cores, speed) for cores, speed in zip((2, 4, 8), speeds, strict=True)]) == knee


@pytest.mark.parametrize(
    ("summary", "name"),
    [
        ({"topology": "apex", "actor_times": {"blocked": 3}, "learner_times": {"wait": 1}}, "actors wait"),
        ({"topology": "apex", "actor_times": {"blocked": 0}, "learner_times": {"wait": 2}}, "learner waits"),
        ({"topology": "apex", "actor_times": {"blocked": 2}, "learner_times": {"wait": 1.5}}, "actors wait"),
        ({"topology": "serial", "actor_times": {"blocked": 9}, "learner_times": {"wait": 9}}, "all compute"),
        ({"workers": {"lock_wait_seconds": 5, "pull_seconds": 1}}, "the lock"),
        ({"workers": {"lock_wait_seconds": 0, "pull_seconds": 5}}, "parameters"),
        ({"workers": {"lock_wait_seconds": 1, "pull_seconds": 1}}, "all compute"),
        ({"topology": "parameter-server", "workers": SERVED}, "wait for the server"),
        ({"workers": SERVED}, "all compute"),  # shared memory: its own work
        ({"workers": {"lock_wait_seconds": 0, "pull_seconds": 2}, "actor_times": {"pull": 2}}, "all compute"),
    ],
)
def test_who_waits_most_is_named(summary: dict[str, Any], name: str) -> None:
    parts = ("actor_times", "learner_times")
    times = {part: {"train": 9.0, "pull": 0.0, **summary.get(part, {})} for part in parts}
    assert name in name_bottleneck({"topology": "hogwild", "workers": None, **summary, **times})


def test_predictions_come_from_runs_of_each_size(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"environment": "2ms", "gradient": "1ms", "start": "10ms"}))
    algorithm = DQN(hidden=(8,), learning_starts=32, batch_size=32)
    config = RunConfig(
        CORRIDOR,
        algorithm,
        Hogwild(envs_per_worker=1),
        time_limit_seconds=4.0,
        final_evaluation_episodes=0,
        launcher=Simulated(costs=costs),
    )
    said: list[str] = []
    one, four = predict(config, [1, 4], tmp_path / "runs", said.append)
    assert (one.cores, four.cores, len(said)) == (1, 4, 2)
    assert 300 < one.steps_per_second < 500  # a step takes 2 ms, and what is learned from it
    assert four.steps_per_second == pytest.approx(4 * one.steps_per_second, rel=0.2)
    (late,) = predict(dataclasses.replace(config, time_limit_seconds=0.005), [1], tmp_path / "late", said.append)
    assert (late.steps_per_second, late.bottleneck) == (0.0, "too short to tell")
    assert 0.9 < one.cores_busy <= 1.01  # the only worker only works
    assert 0.8 < four.cores_busy <= 1.01
    write_tables([one, four._replace(scores=(Score(4, 1.5, 10, 0.5),))], tmp_path)
    rows = list(csv.DictReader((tmp_path / "capacity.csv").open()))
    assert [row["cores"] for row in rows] == ["1", "4"]
    assert list(csv.DictReader((tmp_path / "scores.csv").open())) == [
        {"cores": "4", "seconds": "1.5", "environment_steps": "10", "mean_return": "0.5"}
    ]
