"""Runs in simulated time: the same seed gives the same run, bit for bit."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace import A3C, Hogwild, ParameterServer
from headrace.algorithms.config import Algorithm
from headrace.launch.simulated import Simulated
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training import resume, train
from headrace.training.checkpoint import newest_checkpoint

from .conftest import CORRIDOR, SMALL, TOPOLOGIES
from .test_dyna_q import PLANNING

GLOBAL = ParameterServer(workers=2, envs_per_worker=2, chunk_steps=10, replay="global", shards=2)
QUANTIZED = replace(TOPOLOGIES["apex"], precision="int8")
CASES: dict[str, tuple[Any, Algorithm]] = {
    **{name: (topology, SMALL) for name, topology in TOPOLOGIES.items()},
    "global replay": (GLOBAL, SMALL),
    "int8": (QUANTIZED, SMALL),
    "a3c": (TOPOLOGIES["hogwild"], A3C(hidden=(32,), learning_rate=3e-3)),
    "planners": (TOPOLOGIES["apex"], PLANNING),
}


class Run(NamedTuple):
    parameters: str  # checksum
    records: list[dict[str, Any]]
    summary: dict[str, Any]


def simulate(path: Path, topology: Any, seed: int = 0, algorithm: Algorithm = SMALL, **settings: Any) -> Run:
    costs = path.parent / "costs.json"
    given_costs = settings.pop("costs", {})
    costs.write_text(json.dumps({"environment": "1ms", "gradient": "2ms", "start": "100ms"} | given_costs))
    launcher = replace(settings.pop("launcher", Simulated(cores=2)), costs=costs)
    steps = settings.pop("steps", 1_200)
    given: dict[str, Any] = {"evaluation_period_seconds": 0.5, "evaluation_episodes": 2, "final_evaluation_episodes": 2}
    config = RunConfig(CORRIDOR, algorithm, topology, steps=steps, seed=seed, launcher=launcher, **(given | settings))
    with RunDirectory.create(path, config.to_json()) as run:
        result = train(config, run, QuietDisplay())
    state = newest_checkpoint(run.checkpoints_path).learner()
    checksum = hashlib.sha256(b"".join(np.ascontiguousarray(state[name]).tobytes() for name in sorted(state)))
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return Run(checksum.hexdigest(), records, result.summary)


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_bits(tmp_path: Path, case: str) -> None:
    topology, algorithm = CASES[case]
    first, second, third = (simulate(tmp_path / name, topology, algorithm=algorithm, steps=400) for name in "abc")
    assert first.summary["learner_steps"] > 10
    assert first == second == third  # parameters, records with their times and order, and the summary


def test_another_seed_gives_another_interleaving(tmp_path: Path) -> None:
    runs = [simulate(tmp_path / str(seed), TOPOLOGIES["hogwild"], seed, steps=400) for seed in (0, 1)]
    assert runs[0].summary["actor_times"] != runs[1].summary["actor_times"]
    assert runs[0].parameters != runs[1].parameters


def test_workers_spend_no_time_twice(tmp_path: Path) -> None:
    """Pulls, and requests that find the gate open, are the actor's: a round trip takes 20 ms, and each turn has one."""
    topology = ParameterServer(workers=2, envs_per_worker=2, chunk_steps=10)
    far = Simulated(cores=2, link="10ms,10Gbit")
    rules: dict[str, Any] = {"steps": None, "time_limit_seconds": 6.0, "evaluation_period_seconds": 1e6}
    summary = simulate(tmp_path / "run", topology, launcher=far, **rules).summary
    spent = sum(summary["actor_times"].values()) + sum(summary["learner_times"].values())
    assert 0.8 * 2 * summary["wall_seconds"] < spent < 1.02 * 2 * summary["wall_seconds"]


def test_an_evaluation_erases_none_of_a_serial_run_s_time(tmp_path: Path) -> None:
    """Each of the 600 turns pushes, which takes 1 ms."""
    summary = simulate(
        tmp_path / "run", TOPOLOGIES["serial"], costs={"push": "1ms"}, evaluation_period_steps=200
    ).summary
    assert summary["actor_times"]["push"] == pytest.approx(0.6)
    spent = sum(summary["actor_times"].values()) + sum(summary["learner_times"].values())
    assert spent == pytest.approx(summary["wall_seconds"])


def test_the_evaluation_with_whose_score_a_run_ends_is_no_actor_s_time(tmp_path: Path) -> None:
    """They wait for it until they end. Before their first step they take 0.1 s to start."""
    rules: dict[str, Any] = {"steps": 4_000, "until_score": 0.9}
    summary = simulate(tmp_path / "run", TOPOLOGIES["apex"], **rules).summary
    assert summary["solved"]
    assert 0.7 * summary["wall_seconds"] < sum(summary["actor_times"].values()) / 2 < 1.02 * summary["wall_seconds"]


def test_frequent_evaluations_are_made_when_they_are_due_and_change_no_speed(tmp_path: Path) -> None:
    """Workers that are held stop a little later than the training clock, and go on as much later than it."""
    rules: dict[str, Any] = {"steps": None, "time_limit_seconds": 3.0}
    periods = {"often": 0.07, "never": 1e6}
    often, never = (
        simulate(tmp_path / name, TOPOLOGIES["hogwild"], evaluation_period_seconds=period, **rules)
        for name, period in periods.items()
    )
    moments = [each["seconds"] for each in often.records if each["kind"] == "evaluation"][:-1]  # the last is final
    assert len(moments) > 20
    assert np.diff(moments) == pytest.approx(0.07, abs=0.02)  # requests are 0.07 s apart, each followed by a turn
    assert np.diff(moments).mean() == pytest.approx(0.07, abs=0.001)
    speeds = [run.summary["environment_steps"] / run.summary["wall_seconds"] for run in (often, never)]
    assert speeds[0] == pytest.approx(speeds[1], rel=0.04)


def test_turns_that_end_after_an_evaluation_was_requested_are_on_the_clock(tmp_path: Path) -> None:
    """Turns of more than 100 ms: half a turn was off the clock in each evaluation, a tenth of the work."""
    rules: dict[str, Any] = {"steps": None, "time_limit_seconds": 20.0, "costs": {"environment": "10ms"}}
    speeds = []
    for name, period in (("often", 0.5), ("never", 1e6)):
        topology = Hogwild(workers=1, envs_per_worker=10)
        summary = simulate(tmp_path / name, topology, evaluation_period_seconds=period, **rules).summary
        speeds.append(summary["environment_steps"] / summary["wall_seconds"])
    assert speeds[0] == pytest.approx(speeds[1], rel=0.03)


def test_evaluations_by_steps_are_about_as_many_steps_apart(tmp_path: Path) -> None:
    """Workers report every 0.1 s, for which they are held in each evaluation, and in which they make two periods."""
    rules: dict[str, Any] = {"steps": None, "time_limit_seconds": 2.0, "evaluation_episodes": 20}
    period = {"evaluation_period_seconds": 0.0, "evaluation_period_steps": 80}
    run = simulate(tmp_path, TOPOLOGIES["hogwild"], **period, **rules)
    steps = [each["environment_steps"] for each in run.records if each["kind"] == "evaluation"][:-1]
    assert len(steps) > 15
    assert np.median(np.diff(steps)) == pytest.approx(80, abs=20)


def test_a_resumed_run_counts_its_steps_from_the_start(tmp_path: Path) -> None:
    """Reports of its workers must not be taken for those of the first start, which had the same names and seed."""
    first = simulate(tmp_path / "run", TOPOLOGIES["hogwild"], steps=400).summary
    done, seconds = first["environment_steps"], first["wall_seconds"]
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        second = resume(run, QuietDisplay(), steps=done + 400).summary
    assert done + 400 <= second["environment_steps"] < done + 800
    assert second["wall_seconds"] - seconds < 1.2 * seconds
