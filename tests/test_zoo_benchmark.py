"""The zoo measures every preset, judges all systems alike, and measures a run only once."""

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks import outcome
from benchmarks.outcome import Judge, Rule, Score
from benchmarks.zoo import contender, keep, runs
from benchmarks.zoo.scores import Taken, cells, fewer, relative, shared_tasks, taken
from benchmarks.zoo.tasks import TASKS, Task, systems_of

import headrace
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import DivergenceError
from headrace.launch.simulated import Simulated
from headrace.settings import presets_of
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
    rows += [row("serial", 4, 0.5, holds=False), row("serial", 5, 7.5), row("apex", 0, 7.0)]
    for seed in range(5):  # the file of seed 5 is missing
        runs.policy_path("serial", "CartPole-v1", seed, ".onnx").touch()
    chosen = keep._median(rows, task)
    assert chosen is not None
    assert (chosen["system"], chosen["seed"]) == ("serial", "1")  # of 6, 7, 8 and 9 the lower one in the middle
    runs.policy_path("apex", "CartPole-v1", 0, ".onnx").touch()
    assert keep._median(rows[-1:], task) == rows[-1]
    assert keep._median(rows[4:5], task) is None


def run_of(system: str, task: str, seed: int, score: str, steps: str = "") -> dict[str, str]:
    base = {"system": system, "task": task, "seed": str(seed), "fresh_mean": score, "required": "30"}
    host = {"machine": "one", "cores": "1", "date": "2026-01-01 03:04+00:00"}
    return base | host | {"steps_to_score": steps, "most_steps": "900", "ended": "score" if steps else "limit"}


ROWS = [
    run_of("serial", "A", 1, "20", "50"),
    run_of("serial", "A", 0, "30", "40"),
    run_of("sb3", "A", 0, "35") | {"environment_steps": "70"},
    run_of("serial", "B", 0, "7", "1"),
]


def test_a_run_that_did_not_reach_its_score_counts_with_what_it_took() -> None:
    """One that was killed counts with its limit."""
    assert cells(ROWS, "steps_to_score", "environment_steps", "most_steps") == {
        ("serial", "A"): [40.0, 50.0],  # by seed
        ("sb3", "A"): [70.0],
        ("serial", "B"): [1.0],
    }
    killed = run_of("sb3", "A", 1, "") | {"environment_steps": ""}
    assert cells([*ROWS, killed], "steps_to_score", "environment_steps", "most_steps")["sb3", "A"] == [70.0, 900.0]
    assert ("sb3", "A") not in cells(ROWS, "steps_to_score")


def test_what_a_run_without_its_score_took_tells_only_of_faster_runs() -> None:
    """Of the pairs of 40 or 50 with 45 or more than 45, that of 50 with more than 45 does not tell, and counts half."""
    ours = [Taken(40.0, reached=True), Taken(50.0, reached=True)]
    theirs = [Taken(45.0, reached=True), Taken(45.0, reached=False)]
    assert fewer(ours, theirs) == 2.5 / 4
    assert fewer(theirs, ours) == 1.5 / 4
    never = [Taken(math.inf, reached=False)]
    assert (fewer(ours, never), fewer(never, ours), fewer(never, never)) == (1.0, 0.0, 0.5)
    assert fewer(ours[:1], ours[:1]) == 0.5
    assert math.isnan(fewer(theirs[1:], theirs[1:]))


def test_a_run_that_had_all_its_steps_or_diverged_never_gets_there() -> None:
    cut = run_of("sb3", "A", 0, "35") | {"environment_steps": "70"}
    rows = [cut, cut | {"environment_steps": "900", "seed": "1"}, cut | {"ended": "diverged", "seed": "2"}]
    found = taken(rows, "steps_to_score", "environment_steps")["sb3", "A"]
    assert found == [Taken(value, reached=False) for value in (70.0, math.inf, math.inf)]


def test_systems_are_compared_with_the_median_of_another_one() -> None:
    values = {
        ("sb3", "A"): [Taken(10.0, reached=True), Taken(30.0, reached=True)],
        ("sb3", "B"): [Taken(1.0, reached=False)],
        ("serial", "A"): [Taken(5.0, reached=True), Taken(1.0, reached=False)],
        ("serial", "B"): [Taken(5.0, reached=True)],
        ("serial", "C"): [Taken(5.0, reached=True)],
    }
    found = relative(values, "sb3")
    assert found == {("sb3", "A"): [2.0, pytest.approx(2 / 3)], ("serial", "A"): [4.0, 0.0]}
    shared = shared_tasks(found, ("serial", "sb3"))
    assert {name: values.tolist() for name, values in shared.items()} == {
        "serial": [[4.0], [0.0]],
        "sb3": [[2.0], [pytest.approx(2 / 3)]],
    }
    assert shared_tasks(found, ("serial", "torchrl")) == {}


def test_a_profile_counts_runs_at_the_threshold() -> None:
    """Runs with exactly the required score, such as CartPole's 500."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import statistics

    shares, bounds = statistics.profiles({"serial": np.ones((3, 1))}, np.array([0.5, 1.0, 1.02]))["serial"]
    assert shares.tolist() == [1.0, 1.0, 0.0]
    assert bounds is None
    assert statistics.profiles({"serial": np.ones((10, 1))}, np.array([1.0]))["serial"][1] is not None


def test_the_page_begins_with_what_did_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interquartile means of 1, 2, 3 and 50 drop the smallest and the largest."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import page, statistics

    monkeypatch.setattr(statistics, "_REPEATS", 20)
    more = {"holds": "True", "ended": "score", "seconds_to_score": "4", "most_seconds": "600", "seconds": "4"}
    more |= {"commit": "abc", "date": "2026-01-02", "machine": "processor", "cores": "2", "stop_at": "31"}
    more |= {"environment_steps": "5"}
    rows = [run_of("serial", "CartPole-v1", seed, "500", steps) | more for seed, steps in enumerate("1235")]
    rows[3] |= {"steps_to_score": "50", "holds": "False", "fresh_mean": "12"}
    text = page.page_text(rows, plot=False)
    assert text.index("- CartPole-v1, `serial`: 1 of 4 scores below the required 30: 12\n") < text.index("## Policies")
    assert "more than the preset's" not in text
    assert "| CartPole-v1 | `serial` | 2 | 4 | 31 | 4 | 2.5 [" in text
    assert "by number of cores" not in text
    rows[3]["steps_to_score"] = "100001"
    late = "- CartPole-v1, `serial`: 1 of 4 runs needed more than the preset's 100,000 steps"
    assert late in page.page_text(rows, plot=False)
    rows[3] |= {"ended": "limit", "steps_to_score": "", "environment_steps": "50"}
    assert "| CartPole-v1 | `serial` | 2 | 4 | 31 | 3 | ≥ 2.5 [1, 50] |" in page.page_text(rows, plot=False)
    rows.append(run_of("simulated-8", "CartPole-v1", 0, "500", "9") | more | {"seconds_to_score": "1.5"})
    assert "| CartPole-v1 | ≥ 4 |  |  | 1.5 |  |" in page.page_text(rows, plot=False)
    rows[-1]["date"] = "2026-01-03"  # a machine is not equally fast every day
    assert "by number of cores" not in page.page_text(rows, plot=False)
    assert statistics.seed_estimates({("", ""): [1.0, 2.0, 3.0, 50.0]})["", ""].value == 2.5


def test_the_page_compares_with_other_libraries_task_by_task(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rliable")
    from benchmarks.zoo import page, statistics

    monkeypatch.setattr(statistics, "_REPEATS", 20)
    ended = {"seconds_to_score": "2", "seconds": "2", "environment_steps": "10"}
    rows = [run_of(system, "CartPole-v1", 0, "30", steps) | ended for system, steps in (("serial", "8"), ("sb3", "4"))]
    line = "| CartPole-v1 | `serial` | Stable-Baselines3 | 1 and 1 | 0.5 | 0.00 | 1 | 0.50 |"
    assert page._comparison(rows).endswith(line)
    rows += [row | {"task": "Acrobot-v1", "seconds_to_score": "", "seconds": "9"} for row in rows[1:]]
    rows += [rows[0] | {"task": "Acrobot-v1", "steps_to_score": "8"}]
    assert page._comparison(rows).endswith(
        "| Acrobot-v1 | `serial` | Stable-Baselines3 | 1 and 1 | 0.5 | 0.00 | – | 1.00 |"
    )
    for change in ({"cores": "2"}, {"machine": "another"}, {"date": "2026-01-02 03:04+00:00"}):
        assert page._comparison([*rows[:-1], rows[-1] | change]).endswith("| 0.5 | 0.00 | – | – |")
    assert page._draw_profiles(rows).startswith("<svg")
    assert page._draw_profiles(rows[:1]) == ""


def test_a_frugal_preset_is_compared_in_its_environment_with_any_algorithm() -> None:
    """It chooses the algorithm; the other systems' tasks say theirs."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import page

    ended = {"seconds_to_score": "2", "seconds": "2", "environment_steps": "10"}
    environment = "LunarLanderContinuous-v3"
    rows = [run_of("sb3", environment, 0, "220", "9") | ended]
    rows += [run_of(system, f"{environment}-crossq", 0, "220", "3") | ended for system in ("serial", "frugal")]
    assert [line for line in page._comparison(rows).splitlines() if "1 and 1" in line] == [
        f"| {environment}-crossq | `frugal` | Stable-Baselines3 | 1 and 1 | 3 | 1.00 | 1 | 0.50 |"
    ]


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
    costs.write_text(json.dumps({"calibration": {"environment": "CartPole-v1", "link": "30us,4Gbit"}}))
    monkeypatch.setattr(contender, "FOLDER", tmp_path)
    monkeypatch.setattr(headrace, "train", train)
    with pytest.raises(Started) as started:
        contender.run_headrace("simulated-8", CARTPOLE, 0, Rule(500.0, 60.0), tmp_path)
    topology = Hogwild(workers=8, envs_per_worker=4)  # that many environments as the preset's serial
    assert started.value.args == ("CartPole-v1", Simulated(8, "30us,4Gbit", costs), topology)
