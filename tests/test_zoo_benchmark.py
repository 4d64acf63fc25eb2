"""The zoo measures every preset, judges all systems alike, and measures a run only once."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import outcome
from benchmarks.outcome import Judge, Rule, Score
from benchmarks.zoo import contender, keep, runs
from benchmarks.zoo.tasks import TASKS, Task, systems_of

import headrace
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import DivergenceError
from headrace.launch.simulated import Simulated
from headrace.settings import preset, presets_of
from headrace.topologies.workers import Hogwild

CARTPOLE = next(task for task in TASKS if task.name == "CartPole-v1")


def test_every_preset_has_a_task() -> None:
    """Except Blackjack, of which 100 episodes say nothing, and MinAtar; of the other families, some environments."""
    presets = {(name, algorithm) for algorithm in ALGORITHMS.built_in for name in presets_of(algorithm)}
    frugal = {(name, kind) for kind in ALGORITHMS.built_in for name in presets_of(kind, frugal=True)}
    families = {(name.removesuffix("..."), algorithm) for name, algorithm in presets if name.endswith("/...")}
    tasks = {(task.environment, task.algorithm) for task in TASKS}
    lacking = {(name, algorithm) for name, algorithm in presets - tasks if not name.endswith("/...")}
    assert lacking == {("Blackjack-v1", "dqn"), ("minatar/asterix", "dqn"), ("minatar/freeway", "dqn")}
    assert {(f"{name.partition('/')[0]}/", algorithm) for name, algorithm in tasks - presets - frugal} <= families
    assert frugal <= tasks


def test_names_are_unique_and_a_score_is_stopped_at_or_above_the_required_one() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS)
    assert all(task.stop_at >= task.required for task in TASKS)
    assert {task.name for task in TASKS if task.environment == "Pendulum-v1"} == {
        "Pendulum-v1",
        "Pendulum-v1-td3",
        "Pendulum-v1-sac",
        "Pendulum-v1-crossq",
        "Pendulum-v1-a3c",
    }


def test_peers_join_where_they_publish_settings() -> None:
    systems = {task.name: systems_of(task) for task in TASKS}
    assert {"sb3", "cleanrl", "torchrl"} < {*systems["CartPole-v1"]}
    assert "sb3" in systems["Pendulum-v1-sac"]
    assert "sb3" not in systems["Pendulum-v1"]
    assert "torchrl" not in systems["LunarLander-v3"]
    assert "frugal" in systems["LunarLander-v3"]
    assert "frugal" not in systems["LunarLander-v3-dyna-q"]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(outcome, "time", clock)
    return clock


def scores(*means: float, clock: Clock, lasting: float = 0.0) -> Any:
    """Answers evaluations with these means in turn, each of which takes a while; records what was asked."""
    left = list(means)

    def play(episodes: int, seed: int) -> Score:
        clock.now += lasting
        play.asked.append((episodes, seed))  # type: ignore[attr-defined]
        return Score(left.pop(0), 1.5)

    play.asked = []  # type: ignore[attr-defined]
    return play


def test_evaluations_by_steps_are_off_the_clock_and_confirmed(clock: Clock) -> None:
    play = scores(5.0, 11.0, 9.0, 12.0, 10.0, 7.0, clock=clock, lasting=100.0)
    judge = Judge(Rule(10.0, 600.0, period_steps=50), 3, play)
    ended = None
    for step in range(1, 1_000):
        clock.now += 1.0
        if not judge.goes_on(step):
            ended = step
            break
    assert ended == 150  # 5 at 50; 11, but 9 over 100 episodes at 100; 12 and 10 at 150
    assert play.asked == [(10, 104), (10, 204), (100, 205), (10, 304), (100, 305)]  # each has its own episodes
    found = judge.outcome(7, "settings")
    assert (found.seconds_to_score, found.steps_to_score, found.updates) == (150.0, 150, 7)
    assert (found.mean_return, found.fresh_mean, found.fresh_std) == (10.0, 7.0, 1.5)
    assert play.asked[-1] == (100, 1_000_006)


@pytest.mark.parametrize(("rule", "steps"), [(Rule(1.0, 20.0, 9), 9), (Rule(1.0, 5.0, 9), 5)])
def test_limits_of_steps_and_seconds_end_a_run(clock: Clock, rule: Rule, steps: int) -> None:
    judge = Judge(rule, 0, scores(0.0, clock=clock))
    while True:
        clock.now += 1.0
        steps_done = int(clock.now)
        if not judge.goes_on(steps_done):
            break
    assert steps_done == steps
    assert judge.outcome(0, "").seconds_to_score is None


def test_training_episodes_that_reach_the_score_bring_an_evaluation_forward(clock: Clock) -> None:
    play = scores(0.0, clock=clock)
    judge = Judge(Rule(10.0, 600.0, period_seconds=100.0), 0, play)
    clock.now = 2.0
    assert judge.goes_on(1, lambda: [10.0] * 20)  # too soon
    clock.now = 4.0
    assert judge.goes_on(2, lambda: [10.0] * 19)  # too few
    assert play.asked == []
    assert judge.goes_on(3, lambda: [10.0] * 20)
    assert play.asked == [(10, 7)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of results, and tasks reduced to one."""
    monkeypatch.setattr(runs, "RUNS", tmp_path / "runs.csv")
    monkeypatch.setattr(runs, "_POLICIES", tmp_path / "policies")
    monkeypatch.setattr(runs, "read_rows", lambda path=tmp_path / "runs.csv": READ(path))
    monkeypatch.setattr(runs, "TASKS", (CARTPOLE,))
    monkeypatch.setattr(runs, "available_cores", lambda: 2)
    monkeypatch.setattr(runs, "origin", lambda: {"command": "zoo", "commit": "abc", "date": "today", "cores": 2})
    return tmp_path


READ = runs.read_rows


def answers(monkeypatch: pytest.MonkeyPatch, fresh: Sequence[float], status: int = 0) -> list[tuple[str, str]]:
    """Replaces the processes of runs; returns the systems and seeds that were started."""
    started: list[tuple[str, str]] = []
    left = list(fresh)

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        system, _, seed = command[3:6]
        started.append((system, seed))
        if not status:
            record = {
                "seconds_to_score": 1.5,
                "steps_to_score": 9,
                "environment_steps": 9,
                "updates": 2,
                "seconds": 1.5,
            }
            record |= {"fresh_mean": left.pop(0), "fresh_std": 0.5, "mean_return": 500.0, "settings": "preset"}
            place = Path(command[-1])
            (place / "outcome.json").write_text(json.dumps(record))
            (place / "policy.onnx").write_bytes(f"{system} {seed}".encode())
            (place / "config.json").write_text("{}")
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def test_what_is_measured_is_not_measured_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = answers(monkeypatch, [500.0, 500.0])
    assert runs.measure(1, ("serial", "frugal"), (), 60.0) == 0
    assert started == [("serial", "0"), ("frugal", "0")]
    started = answers(monkeypatch, [499.0])
    assert runs.measure(2, ("serial",), (), 60.0) == 1  # seed 1 misses the required 500
    assert started == [("serial", "1")]
    rows = READ(folder / "runs.csv")
    assert [(row["system"], row["seed"], row["holds"]) for row in rows] == [
        ("serial", "0", "True"),
        ("frugal", "0", "True"),
        ("serial", "1", "False"),
    ]
    assert all((row["commit"], row["ended"]) == ("abc", "score") for row in rows)


def test_only_the_runs_that_were_asked_for_count_as_missed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, [500.0, 499.0])
    assert runs.measure(2, ("serial",), (), 60.0) == 1
    line = "zoo: MISSED: serial, CartPole-v1, seed 1 scored 499.0, 500.0 is required\n"
    assert capsys.readouterr().out.endswith(line)
    assert runs.measure(1, ("serial",), (), 60.0) == 0
    assert "MISSED" not in capsys.readouterr().out


def test_seeds_with_another_threshold_or_other_cores_are_not_mixed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, [500.0])
    assert runs.measure(1, ("serial",), (), 60.0) == 0
    monkeypatch.setattr(runs, "available_cores", lambda: 64)
    assert answers(monkeypatch, [500.0]) == []
    assert runs.measure(2, ("serial",), (), 60.0) == 2
    assert capsys.readouterr().out.endswith("seed 1: its other seeds have cores 2, not 64: move their rows away\n")
    assert len(READ(folder / "runs.csv")) == 1
    monkeypatch.setattr(runs, "available_cores", lambda: 2)
    for field, value in (("period_steps", 7), ("algorithm", "a3c")):
        monkeypatch.setattr(runs, "TASKS", (dataclasses.replace(CARTPOLE, **{field: value}),))
        monkeypatch.setattr(runs.Task, "name", CARTPOLE.name)
        assert runs.measure(2, ("serial",), (), 60.0) == 2
    assert "its other seeds have period_steps 1000, not 7: move" in capsys.readouterr().out


def test_only_the_period_by_which_a_system_is_evaluated_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, [500.0] * 2)
    assert runs.measure(1, ("serial", "hogwild"), (), 60.0) == 0
    periods = {row["system"]: (row["period_steps"], row["period_seconds"]) for row in READ(folder / "runs.csv")}
    assert periods == {"serial": ("1000", ""), "hogwild": ("", "0.5")}
    monkeypatch.setattr(runs, "TASKS", (dataclasses.replace(CARTPOLE, period_steps=7),))
    answers(monkeypatch, [500.0])
    assert runs.measure(2, ("hogwild",), (), 60.0) == 0


def test_what_no_task_has_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.measure(1, ("lock",), (), 60.0) == 2
    assert capsys.readouterr().out.startswith("zoo: there is nothing to measure: ")


def test_a_library_gets_all_the_steps_that_it_publishes() -> None:
    """Three times the preset's 100,000, but CleanRL publishes 500,000."""
    assert [CARTPOLE.most_steps(system) for system in ("serial", "cleanrl")] == [300_000, 500_000]


def test_a_run_that_fails_is_a_row_without_a_score_and_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, [], status=1)
    assert runs.measure(1, ("serial",), (), 60.0) == 2
    (row,) = READ(folder / "runs.csv")
    assert (row["ended"], row["fresh_mean"], row["holds"]) == ("failed", "", "False")
    assert answers(monkeypatch, [500.0]) == []
    assert runs.measure(1, ("serial",), (), 60.0) == 0
    (row,) = READ(folder / "runs.csv")
    assert (row["ended"], row["fresh_mean"]) == ("score", "500.0")


def test_a_run_that_diverges_did_not_reach_its_threshold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not tried again, as no library's run is."""

    def diverge(*_: object) -> None:
        raise DivergenceError("the loss is nan")

    monkeypatch.setattr(contender, "run_headrace", diverge)

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", command[2:])
        contender.main()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        assert runs.measure(1, ("serial",), (), 60.0) == 1
    (row,) = READ(folder / "runs.csv")
    assert (row["ended"], row["fresh_mean"], row["holds"], row["steps_to_score"]) == ("diverged", "", "False", "")


def test_a_run_that_is_killed_at_its_limit_is_a_row_without_a_score(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert runs.measure(1, ("serial",), (), 60.0) == 1
    (row,) = READ(folder / "runs.csv")
    assert (row["ended"], row["fresh_mean"], row["holds"], row["steps_to_score"]) == ("killed", "", "False", "")


def test_a_library_that_is_not_installed_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs.importlib.util, "find_spec", lambda name: None if name == "torchrl" else True)
    started = answers(monkeypatch, [500.0])
    assert runs.measure(1, ("sb3", "torchrl"), (), 60.0) == 0
    assert started == [("sb3", "0")]
    assert "zoo: torchrl is left out: torchrl is not installed" in capsys.readouterr().out


def row(system: str, seed: int, score: float, holds: bool = True) -> dict[str, str]:
    return {"task": "CartPole-v1", "system": system, "seed": str(seed), "fresh_mean": str(score), "holds": str(holds)}


def test_the_policy_with_the_median_score_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_POLICIES", tmp_path)
    task = Task("CartPole-v1", "dqn", 1.0, 1.0, ("apex", "serial"))
    rows = [row("serial", seed, score) for seed, score in enumerate([9.0, 7.0, 8.0, 6.0])]
    rows += [row("serial", 4, 0.5, holds=False), row("apex", 0, 7.0)]
    for seed in (0, 2, 4):
        runs.policy_path("serial", "CartPole-v1", seed, ".onnx").touch()
    assert keep._median(rows, task) is None  # its own file is missing: no other run of the system is the median
    runs.policy_path("serial", "CartPole-v1", 1, ".onnx").touch()
    chosen = keep._median(rows, task)
    assert chosen is not None
    assert (chosen["system"], chosen["seed"]) == ("serial", "1")  # of 6, 7, 8 and 9 the lower one in the middle
    runs.policy_path("apex", "CartPole-v1", 0, ".onnx").touch()
    assert keep._median(rows[-1:], task) == rows[-1]
    assert keep._median(rows[4:5], task) is None


def test_an_interrupted_run_gives_no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def train(environment: str, **settings: Any) -> SimpleNamespace:
        return SimpleNamespace(summary={"stopped_by": "interrupt"})

    monkeypatch.setattr(headrace, "train", train)
    with pytest.raises(KeyboardInterrupt):
        contender.run_headrace("serial", CARTPOLE, 0, Rule(500.0, 60.0), tmp_path)


def test_simulated_systems_use_the_measured_link_and_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Started(Exception):
        pass

    def train(environment: str, **settings: Any) -> None:
        raise Started(environment, settings["launcher"], settings["topology"])

    costs = tmp_path / "costs" / "CartPole-v1.json"
    costs.parent.mkdir()
    settings = preset("CartPole-v1").algorithm.to_record()
    made = {"environment": "CartPole-v1", "settings": settings, "link": "30us,4Gbit"}
    costs.write_text(json.dumps({"calibration": made}))
    monkeypatch.setattr(contender, "FOLDER", tmp_path)
    monkeypatch.setattr(headrace, "train", train)
    with pytest.raises(Started) as started:
        contender.run_headrace("simulated-8", CARTPOLE, 0, Rule(500.0, 60.0), tmp_path)
    topology = Hogwild(workers=8, envs_per_worker=4)  # that many environments as the preset's serial
    assert started.value.args == ("CartPole-v1", Simulated(8, "30us,4Gbit", costs), topology)
