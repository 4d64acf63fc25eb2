"""Whole studies in processes: trials, files, failures and interrupts."""

import csv
import dataclasses
import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import ConfigError
from headrace.launch.simulated import Simulated
from headrace.settings import RunConfig
from headrace.tuning import processes
from headrace.tuning.processes import _shares
from headrace.tuning.run import tune

RATES = {"learning-rate": "log:1e-4:1e-2"}


def test_a_study_gives_a_table_a_file_and_a_page(config: RunConfig, tmp_path: Path, capsys: Any) -> None:
    values = {**RATES, "batch-size": "choice:16,32"}
    tuned = tune(config, values, trials=3, parallel=2, path=tmp_path / "study", quiet=False)
    assert [trial.state for trial in tuned.trials] == ["complete"] * 3
    scores = [trial.score for trial in tuned.trials]
    assert scores == sorted(scores, reverse=True)
    assert tuned.best == tuned.trials[0]
    assert not tuned.interrupted
    for trial in tuned.trials:
        made = RunConfig.from_json((trial.path / "config.json").read_text())
        assert made.algorithm.learning_rate == trial.settings["learning-rate"]
        assert made.seed == trial.number
        assert (trial.path / "summary.json").exists()
    with (tmp_path / "study" / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["trial"]) for row in rows] == [trial.number for trial in tuned.trials]
    assert {row["batch-size"] for row in rows} <= {"16", "32"}
    page = (tmp_path / "study" / "trials.html").read_text()
    assert page.count("<svg") == 4  # order, curves and the two settings
    assert re.search(r"trial 0: [\d.]+ after [\d,]+ steps", capsys.readouterr().out)

    again = tune(config, values, trials=4, parallel=1, path=tmp_path / "study", quiet=True)
    assert sorted(trial.number for trial in again.trials) == [0, 1, 2, 3]
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_trials_in_simulated_time_are_refused(config: RunConfig, tmp_path: Path) -> None:
    simulated = dataclasses.replace(config, launcher=Simulated())
    with pytest.raises(ConfigError, match="launcher is simulated; it must be processes or ray for tuning"):
        tune(simulated, {"learning-rate": "log:1e-4:1e-2"}, trials=1, parallel=1, path=tmp_path / "study", quiet=True)
    assert not (tmp_path / "study").exists()


def test_a_mistake_of_all_trials_is_one_line(config: RunConfig, tmp_path: Path) -> None:
    wrong = dataclasses.replace(config, environment="NoSuch-v0")
    with pytest.raises(ConfigError, match=r"the first 3 trials failed: .*NoSuch"):
        tune(wrong, RATES, trials=9, parallel=2, path=tmp_path / "study", quiet=True)


def test_a_trial_has_ended_when_it_says_so_not_when_the_processes_of_its_environment_end(
    config: RunConfig, tmp_path: Path, environments: str
) -> None:
    forking = dataclasses.replace(config, environment=f"{environments}:forking")
    tuned = tune(forking, RATES, trials=1, parallel=1, path=tmp_path / "study", quiet=True)
    assert [trial.state for trial in tuned.trials] == ["complete"]
    module = importlib.util.find_spec(environments)
    assert module is not None
    assert module.origin is not None
    folder = Path(module.origin).parent
    (folder / "ended").touch()
    assert not (folder / "waited").exists()


def test_a_failing_trial_is_recorded_and_the_study_goes_on(
    config: RunConfig, tmp_path: Path, environments: str
) -> None:
    unlucky = dataclasses.replace(config, environment=f"{environments}:unlucky")
    tuned = tune(unlucky, RATES, trials=2, parallel=1, path=tmp_path / "study", quiet=True)
    assert [(trial.number, trial.state) for trial in tuned.trials] == [(1, "complete"), (0, "failed")]
    assert "out of luck" in tuned.trials[1].note


def test_a_trial_that_dies_before_it_reads_its_settings_is_recorded(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.sys, "executable", "/bin/false")
    monkeypatch.setattr(processes, "write_json", lambda start: " " * 1_000_000)  # more than a pipe takes unread
    [trial] = tune(config, RATES, trials=1, parallel=1, path=tmp_path / "study", quiet=True).trials
    assert (trial.state, trial.note) == ("failed", "its process ended with status 1")


def test_a_trial_that_is_killed_is_recorded_as_such(config: RunConfig, tmp_path: Path, environments: str) -> None:
    """The last line of its log is what its environment printed last."""
    killed = dataclasses.replace(config, environment=f"{environments}:killed")
    [trial] = tune(killed, RATES, trials=1, parallel=1, path=tmp_path / "study", quiet=True).trials
    assert (trial.state, trial.note) == ("failed", "its process was ended by SIGKILL")


def test_a_trial_with_low_scores_is_pruned(
    config: RunConfig, tmp_path: Path, environments: str, open_study: Any, add_good_trials: Any
) -> None:
    slow = dataclasses.replace(config, environment=f"{environments}:Slow")
    study = open_study(slow)
    add_good_trials(study)
    study.close()
    tuned = tune(slow, RATES, trials=6, parallel=1, path=tmp_path / "study", quiet=True)
    [pruned] = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert pruned.number == 5
    assert pruned.score is not None
    assert 0 < pruned.environment_steps < 800
    assert list((pruned.path / "checkpoints").iterdir())


def test_an_interrupt_ends_all_trials_and_prints_the_table(tmp_path: Path, environments: str) -> None:
    command = [sys.executable, "-m", "headrace", "tune", f"{environments}:Slow", "--algorithm", "dqn"]
    command += ["--topology", "serial", "--steps", "2k", "--evaluation-period-steps", "200", "--hidden", "32"]
    command += ["--replay-capacity", "5k", "--learning-starts", "100", "--tune", "learning-rate=log:1e-4:1e-2"]
    command += ["--parallel", "2", "--study-dir", "study"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "steps," in line:  # an evaluation
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "rank" in rest
    assert rest.count("interrupted") >= 2
    rows = list(csv.DictReader((tmp_path / "study" / "trials.csv").open()))
    assert [row["state"] for row in rows] == ["interrupted"] * 2


def test_trials_share_the_cores_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 8})
    assert _shares(2) == [(0, 1), (2, 3)]
    assert _shares(1) == [(0, 1, 2, 3, 8)]
    assert _shares(6) == [()] * 6


@pytest.mark.slow
def test_python_has_the_same_study(tmp_path: Path, config: RunConfig) -> None:
    tuned = headrace.tune(
        config.environment,
        tune={"batch_size": "choice:16"},
        trials=1,
        study_dir=tmp_path / "study",
        quiet=True,
        algorithm=config.algorithm,
        topology=config.topology,
        steps=400,
        final_evaluation_episodes=2,
    )
    assert tuned.best is not None
    assert tuned.best.settings == {"batch-size": "16"}
    with pytest.raises(ConfigError, match="run_dir is not a setting of a run"):
        headrace.tune(config.environment, tune={"batch_size": "choice:16"}, run_dir=tmp_path)
