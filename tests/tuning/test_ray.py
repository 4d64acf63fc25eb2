"""Trials of Ray Tune on a cluster of this machine."""

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from headrace.errors import ConfigError
from headrace.launch.ray import Ray
from headrace.settings import RunConfig
from headrace.topologies.apex import Apex
from headrace.tuning.ray import _reason
from headrace.tuning.run import tune
from headrace.tuning.study import Study

RATES = {"learning-rate": "log:1e-4:1e-2"}

pytestmark = pytest.mark.timeout(1800)  # whole trials, each with several processes


@pytest.fixture(scope="module", autouse=True)
def cluster(environments: str, patient_ray: None) -> Iterator[None]:
    """A cluster with room for more processes than there are cores; runs in it leave it as it is."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_trials_run_in_placement_groups(config: RunConfig, tmp_path: Path) -> None:
    topology = Apex(envs_per_actor=2, chunk_steps=10)
    placed = dataclasses.replace(
        config, launcher=Ray(wait_seconds=600.0), topology=topology, evaluation_period_seconds=2.0
    )
    tuned = tune(placed, RATES, trials=2, parallel=2, path=tmp_path / "study", quiet=True)
    assert [trial.state for trial in tuned.trials] == ["complete"] * 2
    assert all((trial.path / "summary.json").exists() for trial in tuned.trials)
    groups = ray.util.placement_group_table().values()
    runs = [RunConfig.from_json((trial.path / "config.json").read_text()) for trial in tuned.trials]
    actors = [run.topology.actors for run in runs]  # the default, which the study has fixed
    assert sorted(len(group["bundles"]) for group in groups) == [1 + count for count in sorted(actors)]
    assert {group["strategy"] for group in groups} == {"SPREAD"}


@pytest.mark.slow
def test_a_trial_with_low_scores_is_pruned(
    config: RunConfig, tmp_path: Path, environments: str, open_study: Any, add_good_trials: Any
) -> None:
    slow = dataclasses.replace(config, launcher=Ray(wait_seconds=600.0), environment=f"{environments}:Slow")
    study = open_study(slow)
    add_good_trials(study)
    study.close()
    tuned = tune(slow, RATES, trials=6, parallel=1, path=tmp_path / "study", quiet=True)
    [pruned] = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert pruned.number == 5
    assert list((pruned.path / "checkpoints").iterdir())


@pytest.mark.slow
def test_an_interrupt_lets_trials_save(
    config: RunConfig, tmp_path: Path, environments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Study.report

    def interrupt(study: Study, number: int, record: Any) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return report(study, number, record)

    monkeypatch.setattr(Study, "report", interrupt)
    slow = dataclasses.replace(config, launcher=Ray(wait_seconds=600.0), environment=f"{environments}:Slow")
    tuned = tune(slow, RATES, trials=6, parallel=1, path=tmp_path / "study", quiet=True)
    assert tuned.interrupted
    [trial] = tuned.trials
    assert trial.state == "interrupted"
    assert list((trial.path / "checkpoints").iterdir())


def test_trials_without_room_are_refused_after_a_while(config: RunConfig, tmp_path: Path) -> None:
    topology = Apex(actors=1)
    placed = dataclasses.replace(config, launcher=Ray(actor_cpus=5, wait_seconds=0.1), topology=topology)
    with pytest.raises(ConfigError, match=r"0.1 s .*needs 10 CPUs in all .*there are 8 CPUs"):
        tune(placed, RATES, trials=2, parallel=2, path=tmp_path / "study", quiet=True)


@pytest.mark.slow
def test_three_deaths_by_the_same_reason_end_the_study(config: RunConfig, tmp_path: Path, environments: str) -> None:
    deadly = dataclasses.replace(config, launcher=Ray(wait_seconds=600.0), environment=f"{environments}:deadly")
    with pytest.raises(ConfigError, match=r"the first 3 trials failed: its process died: .*exit"):
        tune(deadly, RATES, trials=9, parallel=1, path=tmp_path / "study", quiet=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Failure # 1\n", "no reason is known"),
        ("Failure # 1\nTask was killed.\nMemory on 10.0.0.1\n", "Task was killed."),
        ("Failure # 1\nThe actor died.\n pid: 7\n Worker exit detail: It crashed. End of file.\n", "It crashed"),
        ("Failure # 1\nray::T() (pid=7)\n Traceback ...\nImportError: no b. c\n", "ImportError: no b. c"),
    ],
)
def test_a_reason_does_not_name_the_process(text: str, reason: str) -> None:
    assert _reason(text) == reason


def test_settings_that_no_study_can_have_are_refused(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study"
    placed = dataclasses.replace(config, launcher=Ray(server_node="10.0.0.1"), topology=Apex())
    with pytest.raises(ConfigError, match=r"server_node is 10\.0\.0\.1"):
        tune(placed, RATES, trials=1, parallel=1, path=path, quiet=True)
    placed = dataclasses.replace(config, launcher=Ray(ray_address="ray://10.0.0.1:10001"))
    with pytest.raises(ConfigError, match=r"ray_address is ray://10.0.0.1:10001; .*ray job submit"):
        tune(placed, RATES, trials=1, parallel=1, path=path, quiet=True)
    monkeypatch.setenv("RAY_ADDRESS", "ray://10.0.0.1:10001")
    with pytest.raises(ConfigError, match=r"ray_address is ray://10.0.0.1:10001"):
        tune(dataclasses.replace(config, launcher=Ray()), RATES, trials=1, parallel=1, path=path, quiet=True)
    assert not path.exists()


def test_without_ray_tune_the_extras_are_named(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray.tune", None)
    monkeypatch.delattr(ray, "tune", raising=False)
    monkeypatch.delitem(sys.modules, "headrace.tuning.ray", raising=False)
    placed = dataclasses.replace(config, launcher=Ray(wait_seconds=600.0))
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[ray,tune\]'"):
        tune(placed, RATES, trials=1, parallel=1, path=tmp_path / "study", quiet=True)
