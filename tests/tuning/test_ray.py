"""Trials of Ray Tune on a cluster of this machine."""

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from headrace.errors import ConfigError
from headrace.launch.config import Ray
from headrace.settings import RunConfig
from headrace.topologies.config import Apex
from headrace.tuning.run import tune


@pytest.fixture(scope="module", autouse=True)
def cluster(environments: str) -> Iterator[None]:
    """A cluster with room for more processes than there are cores; runs in it leave it as it is."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_trials_run_in_placement_groups(config: RunConfig, tmp_path: Path) -> None:
    topology = Apex(actors=1, envs_per_actor=2, chunk_steps=10)
    placed = dataclasses.replace(config, launcher=Ray(), topology=topology, evaluation_period_seconds=2.0)
    tuned = tune(placed, {"learning-rate": "log:1e-4:1e-2"}, trials=2, parallel=2, path=tmp_path / "study", quiet=True)
    assert [trial.state for trial in tuned.trials] == ["complete"] * 2
    assert all((trial.path / "summary.json").exists() for trial in tuned.trials)
    groups = ray.util.placement_group_table().values()
    assert sorted(len(group["bundles"]) for group in groups) == [3, 3]  # learner, actor, evaluator
    assert {group["strategy"] for group in groups} == {"SPREAD"}


def test_a_trial_with_low_scores_is_pruned(
    config: RunConfig, tmp_path: Path, environments: str, open_study: Any, add_good_trials: Any
) -> None:
    slow = dataclasses.replace(config, launcher=Ray(), environment=f"{environments}:Slow")
    study = open_study(slow)
    add_good_trials(study)
    study.close()
    tuned = tune(slow, {"learning-rate": "log:1e-4:1e-2"}, trials=6, parallel=1, path=tmp_path / "study", quiet=True)
    [pruned] = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert pruned.number == 5
    assert list((pruned.path / "checkpoints").iterdir())


def test_a_mistake_of_all_trials_is_one_line(config: RunConfig, tmp_path: Path) -> None:
    wrong = dataclasses.replace(config, launcher=Ray(), environment="NoSuch-v0")
    with pytest.raises(ConfigError, match=r"the first 3 trials failed: .*NoSuch"):
        tune(wrong, {"learning-rate": "log:1e-4:1e-2"}, trials=9, parallel=2, path=tmp_path / "study", quiet=True)


def test_without_ray_tune_the_extras_are_named(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray.tune", None)
    monkeypatch.delattr(ray, "tune", raising=False)
    monkeypatch.delitem(sys.modules, "headrace.tuning.ray", raising=False)
    placed = dataclasses.replace(config, launcher=Ray())
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[ray,tune\]'"):
        tune(placed, {"learning-rate": "log:1e-4:1e-2"}, trials=1, parallel=1, path=tmp_path / "study", quiet=True)
