"""Simulated against real runs: what is compared, and that a run is measured only once."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.validation import runs
from benchmarks.validation.cases import SETUPS, Case, Plan, Setup, list_cases
from benchmarks.validation.comparison import compare
from benchmarks.validation.contender import COLUMNS, describe_run
from benchmarks.validation.plots import draw_steps

from headrace.algorithms.dqn.config import DQN
from headrace.errors import ConfigError
from headrace.roles.clock import ACTOR_PHASES, LEARNER_PHASES

SERIAL, PAIR = Setup("serial"), Setup("hogwild", 2)
PLAN = Plan("CartPole-v1", 475.0, 2, 60.0, "costs.json")


def test_the_first_seed_of_every_topology_comes_first() -> None:
    cases = list(list_cases(2, (SERIAL, PAIR)))
    assert [(case.setup.name, case.seed, case.mode) for case in cases] == [
        (name, seed, mode) for seed in (0, 1) for mode in ("real", "simulated") for name in ("serial", "hogwild-2")
    ]
    assert len({setup.name for setup in SETUPS}) == len(SETUPS)


class Runner:
    """Takes the place of runs; fails with the given cases."""

    def __init__(self, *failing: Case) -> None:
        self.made: list[Case] = []
        self._failing = failing

    def __call__(self, plan: Plan, case: Case) -> Mapping[str, Any] | None:
        assert plan == PLAN
        self.made.append(case)
        if case in self._failing:
            return None
        return dict.fromkeys(COLUMNS) | {"ended": "score", "steps_to_score": 1_000, "seconds_to_score": 1.5}


@pytest.fixture(autouse=True)
def _no_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "origin", lambda: {"commit": "abc"})


def test_runs_that_have_a_row_are_not_made_again(tmp_path: Path) -> None:
    path, cases = tmp_path / "runs.csv", list(list_cases(2, (SERIAL, PAIR)))
    failing = cases[2]
    first = Runner(failing)
    assert runs.measure(PLAN, cases[:4], path, first) is False
    assert sorted(first.made) == sorted(cases[:4])  # the others are made nevertheless
    second = Runner()
    assert runs.measure(PLAN, cases, path, second) is True
    assert sorted(second.made) == sorted([failing, *cases[4:]])
    rows = runs.read_csv(path)
    assert len(rows) == len(cases)
    assert rows[0]["commit"] == "abc"
    assert all(sum(case.is_of(row) for row in rows) == 1 for case in cases)


def test_rows_of_other_settings_are_refused(tmp_path: Path) -> None:
    runs.measure(PLAN, [Case(SERIAL, 0, "real")], tmp_path / "runs.csv", Runner())
    rows = runs.read_csv(tmp_path / "runs.csv")
    runs.require_same(rows, PLAN)
    with pytest.raises(ConfigError, match="score 475"):
        runs.require_same(rows, PLAN._replace(score=200.0))


def test_costs_are_measured_once_and_for_one_environment(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    made = {"environment": "CartPole-v1", "settings": DQN().to_record(), "link": "3us,40Gbit"}
    path.write_text(json.dumps({"calibration": made}))
    assert runs.calibrate_once("CartPole-v1", DQN(), path) == "3us,40Gbit"
    with pytest.raises(ConfigError, match="the costs of another environment"):
        runs.calibrate_once("LunarLander-v3", DQN(), path)
    with pytest.raises(ConfigError, match=r"the costs of other settings: move it away$"):
        runs.calibrate_once("CartPole-v1", DQN(batch_size=64), path)
    del made["settings"]
    path.write_text(json.dumps({"calibration": made}))
    with pytest.raises(ConfigError, match=r"names no settings of its costs: move it away$"):
        runs.calibrate_once("CartPole-v1", DQN(), path)


def row(setup: Setup, seed: int, mode: Any, **cells: object) -> dict[str, str]:
    columns = Case(setup, seed, mode).columns | cells
    return {name: str(value) for name, value in columns.items()}


def test_the_remaining_time_is_that_of_similar_runs() -> None:
    rows = [row(SERIAL, seed, "real", process_seconds=seconds) for seed, seconds in enumerate((10, 20, 30))]
    rows.append(row(SERIAL, 0, "simulated", process_seconds=100))
    cases = list(list_cases(4, (SERIAL,)))  # one real run and three simulated ones are missing
    assert runs.estimate_seconds(cases, rows, cores=1) == 20 + 3 * 100
    assert runs.estimate_seconds(cases, rows, cores=2) == 20 + 3 * 100 / 2  # two simulated runs at a time
    assert runs.estimate_seconds([Case(PAIR, 0, "real")], rows, cores=2) == 25  # the median of all
    assert runs.estimate_seconds(cases, [], cores=1) == 8 * 60


def made(setup: Setup, mode: Any, speeds: tuple[object, ...], steps: tuple[object, ...]) -> list[dict[str, str]]:
    """Rows of runs that are evaluated at every step."""
    return [
        row(setup, seed, mode, updates_per_second=speed, steps_per_second=0.1, steps_to_score=step)
        for seed, (speed, step) in enumerate(zip(speeds, steps, strict=True))
    ]


def test_speeds_are_compared_by_medians_and_steps_by_distributions() -> None:
    rows = made(SERIAL, "real", (90, 100, 100, 110, 500), (10, 20, 30, 40, 50))
    rows += made(SERIAL, "simulated", (105, 105, 108, 109, 109), (10, 20, 30, 40, 50))
    rows += made(PAIR, "real", (100,) * 5, (10, 20, 30, 40, 50))
    rows += made(PAIR, "simulated", (111,) * 5, (60, 70, 80, "", ""))  # two did not reach the score
    same, different = compare(rows)
    assert (same["topology"], same["ratio"], same["speed"]) == ("serial", pytest.approx(1.08), "holds")
    assert (same["p"], same["more_steps"], same["steps"]) == (1.0, 0.5, "not told apart")
    assert (different["ratio"], different["speed"]) == (pytest.approx(1.11), "MISSED")
    assert different["p"] == pytest.approx(2 / 252)  # of 10 over 5 orders, two keep the groups apart
    assert (different["more_steps"], different["steps"]) == (1.0, "MISSED")
    assert different["simulated_steps"] == 80


def test_runs_that_are_solved_at_the_same_evaluation_have_the_same_steps() -> None:
    """Although one kind is 3 % faster: its steps are all different, and its learning is not."""
    rows = [
        row(PAIR, seed, mode, updates_per_second=100, steps_per_second=rate, steps_to_score=10 * rate * evaluation)
        for mode, rate in (("real", 1_000), ("simulated", 1_030))
        for seed, evaluation in enumerate((3, 4, 4, 4, 4))
    ]
    (record,) = compare(rows)
    assert (record["period_steps"], record["p"], record["steps"]) == (10_000, 1.0, "not told apart")
    assert record["p_of_exact_steps"] < 0.1


def test_few_runs_decide_nothing() -> None:
    rows = made(SERIAL, "real", (100,) * 5, (10, 20, 30, 40, 50))
    rows += made(SERIAL, "simulated", (50,) * 4, (60, 70, 80, 90))
    rows += made(PAIR, "real", (100.0,), (10,))
    (record,) = compare(rows)  # of the other there are no simulated runs
    assert (record["speed"], record["steps"], record["simulated_runs"]) == ("undecided", "undecided", 4)


def test_a_run_that_was_killed_has_no_speed_and_no_steps() -> None:
    rows = made(SERIAL, "real", (100.0,) * 2, (10, 20))
    rows += made(SERIAL, "simulated", (100.0, ""), (10, ""))
    (record,) = compare(rows)
    assert (record["ratio"], record["simulated_steps"]) == (1.0, math.inf)


def test_a_run_is_described_per_process_and_training_second() -> None:
    summary = {
        "stopped_by": "score",
        "wall_seconds": 20.0,
        "seconds_to_score": 20.0,
        "steps_to_score": 4_000,
        "environment_steps": 4_000,
        "learner_steps": 1_000,
        "samples_per_insert": 8.0,
        "staleness": 0.5,
        "workers": {},
        "actor_times": dict.fromkeys(ACTOR_PHASES, 4.0),
        "learner_times": dict.fromkeys(LEARNER_PHASES, 2.0),
    }
    alive = {"actors_alive": 2, "actors_total": 2}
    progress = [
        {"seconds": 1.0, "environment_steps": 0, "learner_steps": 0, **alive},
        {"seconds": 3.0, "environment_steps": 200, "learner_steps": 50, **alive},
        {"seconds": 8.0, "environment_steps": 1_200, "learner_steps": 300, **alive},
    ]
    found = describe_run(summary, progress, PAIR, 0.25)
    assert tuple(found) == COLUMNS
    assert (found["updates_per_second"], found["steps_per_second"], found["training_cores"]) == (50.0, 200.0, 0.25)
    assert found["start_seconds"] == 3.0
    assert (found["acting_environment"], found["learning_train"]) == (0.1, 0.05)
    assert describe_run(summary | {"workers": None}, progress, PAIR, 0.0)["learning_train"] == 0.1  # one learner


def test_the_plot_shows_both_kinds() -> None:
    rows = made(SERIAL, "real", (1, 1), (10, 20)) + made(SERIAL, "simulated", (1, 1), (10, ""))
    svg = draw_steps(rows)
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "var(--" not in svg
    assert all(word in svg for word in (">real<", ">simulated<", ">serial<"))
