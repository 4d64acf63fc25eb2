"""The study of workers that act and learn: cases, runs, and the page."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.cli.main import main
from headrace.errors import ConfigError, LaunchError
from headrace.launch.simulated import Simulated
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.studies.concurrency import study
from headrace.studies.concurrency.cases import (
    UNCHANGED,
    ablation_cases,
    dyna_q_case,
    factor_cases,
    fault_case,
    run_case,
    simulated_case,
)
from headrace.studies.concurrency.measure import COLUMNS, Case, kill_workers, measure, worker_processes
from headrace.studies.concurrency.study import Concurrency, ConcurrencyOptions
from headrace.studies.run import run_plan
from headrace.topologies.apex import Apex
from headrace.topologies.serial import Serial
from headrace.topologies.workers import Hogwild

from ..waiting import wait_for

STUDY = Concurrency()
NOTHING = {"runs": (), "throughput": (), "ablation": (), "faults": (), "simulated": (), "factors": ()}
TINY = Case(
    "runs",
    "dqn",
    RunConfig(
        "CartPole-v1",
        DQN(hidden=(16,), batch_size=16, learning_starts=50, samples_per_step=4.0),
        Serial(envs_per_actor=2, chunk_steps=5),
        steps=600,
        until_score=500.0,
        evaluation_period_steps=10_000,
        final_evaluation_episodes=2,
        device="cpu",
    ),
)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_run_from_its_process_to_the_page_and_nothing_twice(monkeypatch, tmp_path, origin) -> None:
    said: list[str] = []
    page = run_plan(STUDY, "small", NOTHING | {"runs": (TINY,)}, tmp_path, said.append, origin, ["runs"])
    (row,) = rows_of(tmp_path / "runs.csv")
    assert row.keys() == {"case", *COLUMNS, "command", "commit", "date", "machine", "cores"}
    assert (row["variant"], row["topology"], row["workers"], row["environments"]) == ("dqn", "serial", "1", "2")
    assert (row["solved"], row["seconds_to_score"], row["stopped_by"]) == ("no", "", "steps")
    assert row["score_episodes"] == "2"
    assert int(row["environment_steps"]) >= 600
    assert float(row["samples_per_step"]) == pytest.approx(4.0, rel=0.15)
    assert row["lock_wait_share"] == row["accepted"] == row["killed"].replace("0", "") == ""
    assert "dqn, serial</th><td>0 of 1</td><td>–</td>" in page.read_text()
    assert not (tmp_path / "runs" / TINY.name / "run" / "checkpoints").exists()

    monkeypatch.setattr(study, "measure", lambda case, folder: pytest.fail("measured twice"))
    said.clear()
    run_plan(STUDY, "small", NOTHING | {"runs": (TINY,)}, tmp_path, said.append, origin, ["runs"])
    assert said == ["runs: 1 of 1 cases are measured already, and kept"]


def test_a_run_that_fails_says_why(tmp_path) -> None:
    broken = replace(TINY, config=replace(TINY.config, environment="NoSuchThing-v0"))
    with pytest.raises(LaunchError, match="NoSuchThing"):
        measure(broken, tmp_path / "broken")


def test_a_run_that_diverges_has_not_solved_its_task(tmp_path) -> None:
    steep = replace(TINY, config=replace(TINY.config, algorithm=replace(TINY.config.algorithm, learning_rate=1e30)))
    row = measure(steep, tmp_path / "steep")
    assert row.keys() == {*COLUMNS}
    assert (row["solved"], row["stopped_by"], row["topology"], row["seed"]) == ("no", "diverged", "serial", 0)
    assert row["seconds_to_score"] is None
    endless = replace(steep, config=replace(steep.config, until_score=None))
    with pytest.raises(LaunchError, match="training diverged"):
        measure(endless, tmp_path / "endless")


def test_an_interrupted_run_is_no_row(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(RunDirectory, "read_summary", lambda run: {"stopped_by": "interrupt"})
    with pytest.raises(LaunchError, match="the run was interrupted"):
        measure(replace(TINY, config=replace(TINY.config, steps=60)), tmp_path / "cut")


def test_only_the_parts_that_were_asked_for_are_measured(monkeypatch, tmp_path, origin) -> None:
    measured = []
    monkeypatch.setattr(study, "measure", lambda case, folder: measured.append(case.part) or dict.fromkeys(COLUMNS))
    plan = NOTHING | {"runs": (TINY,), "faults": (replace(TINY, part="faults"),)}
    monkeypatch.setattr(study, "compare", lambda *parts: [])
    run_plan(STUDY, "small", plan, tmp_path, lambda line: None, origin, ["faults"])
    assert measured == ["faults"]


@pytest.fixture
def workers():
    """Two processes that look like workers 0 and 1, and one that looks like an evaluator."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)", "headrace.launch.child"]
    processes = [
        subprocess.Popen([*sleep, *words.split(), str(os.getpid())])
        for words in ("worker 0 0", "evaluator 0 0", "worker 1 0")
    ]
    yield processes[0], processes[2], processes[1]
    for process in processes:
        process.kill()
        process.wait()


def test_the_last_workers_are_killed_once_it_is_time(tmp_path, workers) -> None:
    first, last, evaluator = workers
    wait_for(lambda: len(worker_processes(os.getpid())) == 2)  # a process that has just begun has no words yet
    assert worker_processes(os.getpid()) == {0: first.pid, 1: last.pid}
    killed: list[int] = []
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.append({"kind": "progress", "environment_steps": 999})
        run.append({"kind": "evaluation", "environment_steps": 5_000})
        run.append({"kind": "progress", "environment_steps": 1_000})
        kill_workers(run, 1, 1_000, killed)
    assert killed == [1]
    assert last.wait(10) == -signal.SIGKILL
    assert first.poll() is None
    assert evaluator.poll() is None


def test_small_is_small_and_full_is_all(monkeypatch) -> None:
    small = STUDY.plan("small", ConcurrencyOptions())
    assert [str(case) for case in small["runs"]] == [
        "dqn, serial, seed 0",
        "dqn, hogwild × 1, seed 0",
        "dqn, hogwild × 2, seed 0",
        "dqn, hogwild × 4, seed 0",
    ]
    assert ConcurrencyOptions().chosen("parts", "small") == ("runs", "throughput")
    monkeypatch.setattr(study, "available_cores", lambda: 16)
    full = STUDY.plan("full", ConcurrencyOptions())
    counts = 5  # 1, 2, 4, 8 and 16
    assert len(full["runs"]) == 3 * (3 + 2 * 4 * counts + counts - 1)  # Dyna-Q has no run of one process that plans
    assert len(full["throughput"]) == 3 * 2 * (1 + 4 * counts)
    assert (len(full["ablation"]), len(full["faults"])) == (15, 24)
    names = [case.name for cases in full.values() for case in cases]
    assert len(set(names)) == len(names)
    chosen = ConcurrencyOptions(("faults", "runs"), ("a3c",), ("lock",), (4, 2, 4), 1)
    assert chosen.chosen("parts", "full") == ("faults", "runs")
    assert [str(case) for case in STUDY.plan("full", chosen)["runs"]] == [
        "a3c, serial, seed 0",
        "a3c, lock × 2, seed 0",
        "a3c, lock × 4, seed 0",
    ]
    assert " ".join(chosen.words()) == (
        "--parts faults runs --algorithms a3c --topologies lock --workers 4 2 4 --seeds 1"
    )


def test_the_simulated_part_has_a_core_for_each_worker_and_is_measured_alone() -> None:
    options = ConcurrencyOptions(simulated=True)
    assert (options.chosen("parts", "full"), options.words()) == (("simulated",), ["--simulated"])
    small = STUDY.plan("small", options)["simulated"]
    assert [str(case) for case in small[3:7]] == [
        "dqn, hogwild × 4, seed 0",
        "dqn, hogwild × 8, seed 0",
        "dqn, 64 environments, serial, seed 0",
        "dqn, 64 environments, hogwild × 1, seed 0",
    ]
    full = STUDY.plan("full", options)["simulated"]
    assert len(full) == 10 * 2 * (1 + 4 * 7 + 1 + 7)
    assert {case.topology for case in full if case.config.algorithm.name == "a3c"} == {"serial", "hogwild"}
    locks = STUDY.plan("full", ConcurrencyOptions(topologies=("lock",), simulated=True))["simulated"]
    assert {case.config.algorithm.name for case in locks} == {"dqn"}
    fixed, growing = (simulated_case("dqn", "lock", 16, 3, shared_out=shared_out) for shared_out in (True, False))
    assert (fixed.environments, growing.environments, growing.config.launcher.cores) == (64, 16 * 16, 16)
    assert len({case.name for case in full}) == len(full)


def test_a_simulated_run_has_a_row_like_others(tmp_path) -> None:
    config = replace(TINY.config, topology=Hogwild(workers=2, envs_per_worker=1), launcher=Simulated(cores=2))
    row = measure(Case("simulated", "dqn", config), tmp_path / "case")
    assert (row["topology"], row["workers"], row["alive_at_end"]) == ("hogwild", 2, 2)
    assert row["environment_steps"] >= 600
    assert row["accepted"] == row["updates"] > 0


def test_each_factor_is_the_changes_that_it_names() -> None:
    cases = factor_cases(4)
    assert len({case.name for case in cases}) == len(cases)
    assert len(STUDY.plan("small", ConcurrencyOptions())["factors"]) == 10 * len(cases)
    assert {(case.config.seed, case.config.launcher.cores == case.workers) for case in cases} == {(4, True)}
    base = {(case.topology, case.workers): case for case in cases if case.variant == UNCHANGED}
    assert {case.environments for case in base.values()} == {64}
    for case in cases:
        records = (json.loads(each.config.to_json()) for each in (case, base[case.topology, case.workers]))
        ours, theirs = (_flat(record) for record in records)
        changes = sum(ours[name] != value for name, value in theirs.items()) + case.instant
        assert changes == (0 if case.variant == UNCHANGED else len(case.variant.split(", "))), case


def _flat(record: dict[str, object], path: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in record.items():
        found |= _flat(value, f"{path}{name}.") if isinstance(value, dict) else {path + name: value}
    return found


def test_instant_updates_have_no_staleness(tmp_path) -> None:
    config = replace(TINY.config, topology=Hogwild(workers=3, envs_per_worker=1), launcher=Simulated(cores=3))
    case = Case("factors", "no staleness", config)
    stale, instant = (measure(replace(case, instant=value), tmp_path / str(value)) for value in (False, True))
    assert stale["staleness"] > 0.5
    assert instant["staleness"] == 0
    assert instant["updates"] > 0


def test_cases_are_what_they_say() -> None:
    four = run_case("dqn", "parameter-server", 4, 2)
    serial = run_case("dqn", "serial", 1, 2)
    assert four.workers == 4
    assert four.environments == 4 * serial.environments
    assert four.config.algorithm == serial.config.algorithm
    assert four.samples_per_step == serial.samples_per_step == serial.config.algorithm.samples_per_step
    assert (four.config.seed, four.config.until_score) == (2, 200.0)
    planning = dyna_q_case(4, 0)
    assert isinstance(planning.config.topology, Apex)
    assert (planning.workers, planning.config.topology.actors, planning.config.algorithm.planners) == (4, 1, 3)
    assert planning.environments == serial.environments
    calm, hit = (fault_case("lock", 0, disturbed=disturbed) for disturbed in (False, True))
    assert calm.config == hit.config
    assert (calm.killed, hit.killed, hit.workers) == (0, 1, 4)
    assert calm.name != hit.name


def test_the_ablation_compares_equal_updates() -> None:
    dqn, as_many, planning, off, by_priority = ablation_cases(1)
    updates = [case.config.algorithm.samples_per_step / case.config.algorithm.batch_size
               for case in (as_many, planning, off, by_priority)]  # fmt: skip
    assert updates == [updates[0]] * 4
    assert {case.config.algorithm.search_control for case in (planning, by_priority)} == {"uniform", "prioritized"}
    assert isinstance(planning.config.algorithm, DynaQ)
    assert planning.config.algorithm.world_model
    assert not off.config.algorithm.world_model
    assert type(dqn.config.algorithm) is type(as_many.config.algorithm) is DQN
    assert dqn.config.topology == planning.config.topology
    for field in fields(DQN):  # the same run twice
        assert getattr(as_many.config.algorithm, field.name) == getattr(off.config.algorithm, field.name), field.name
    assert planning.samples_per_step == planning.config.algorithm.samples_per_step
    assert off.samples_per_step == off.config.algorithm.samples_per_step


def test_options_are_the_study_s_own(capsys) -> None:
    assert main(["study", "concurrency", "--help"]) == 0
    assert re.search(r"--parts \[?PART", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--parts fault", "parts has fault, which the study does not know; did you mean faults?"),
        ("--algorithms d4pg", "algorithms has d4pg, which the study does not know; it must be one of dqn, a3c, dyna-q"),
        (
            "--topologies serial",
            "topologies has serial, which the study does not know; it must be one of lock, hogwild, ",
        ),
        ("--workers 2 0", "workers is 0; it must be above 0"),
        ("--seeds 0", "seeds is 0; it must be above 0"),
        ("--simulated --parts runs", "parts is runs; it must be left out with --simulated"),
        ("--simulated --algorithms dyna-q", "algorithms is dyna-q; it must be dqn or a3c with --simulated"),
        ("--simulated --algorithms a3c --topologies lock", "algorithms is a3c; it must be dqn or a3c with --simulated"),
        ("--simulated --workers 2 3", "workers is 3; it must be a divisor of 64 with --simulated"),
        ("--parts factors --workers 4", "workers is 4; it must be left out with --parts factors"),
        ("--parts faults ablation --workers 2", "workers is 2; it must be left out with --parts faults ablation"),
        ("--parts ablation --algorithms dqn", "algorithms is dqn; it must be left out with --parts ablation"),
    ],
)
def test_mistakes_are_one_line(capsys, words: str, message: str) -> None:
    assert main(["study", "concurrency", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headrace: error: {message}")
    assert error.count("\n") == 1


def test_a_number_of_workers_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="workers is -1; it must be above 0"):
        ConcurrencyOptions(workers=(1, -1))
