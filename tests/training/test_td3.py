"""Whole small runs of TD3, the roles as threads."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.td3.config import TD3
from headrace.report.display import QuietDisplay
from headrace.training import resume

from . import conftest
from .conftest import Train
from .test_runs import tensors

TARGET = "headrace.environments.toy:Target"
SMALL = TD3(
    hidden=(64, 64),
    critic_hidden=(64, 64),
    batch_size=64,
    n_step=3,
    learning_rate=2e-3,
    critic_learning_rate=2e-3,
    target_update_rate=0.05,
    discount=0.9,
    sigmas=(0.2, 0.5),
    replay_capacity=20_000,
    learning_starts=200,
    samples_per_step=32.0,
    publish_period=5,
)


@pytest.fixture
def td3(train: Train, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains SMALL on a point that is to go to its target; actors of the Apex topology act in int8."""
    monkeypatch.setattr(conftest, "SMALL", SMALL)
    apex = dataclasses.replace(conftest.TOPOLOGIES["apex"], precision="int8")
    monkeypatch.setitem(conftest.TOPOLOGIES, "apex", apex)

    def start(topology: str, **settings: Any) -> Any:
        return train(topology, environment=TARGET, **settings)

    return start


def test_learns_the_target_with_int8_actors(td3: Train) -> None:
    result = td3("apex", steps=4_000, final_evaluation_episodes=100)
    assert result.summary["mean_return"] >= 9.2  # 9.81 is the most, 6.67 to stand still
    [first, *_] = [record for record in result.run.read_metrics() if record["kind"] == "quantization"]
    assert 0 < first["largest"] < 0.1 * first["largest_output"]  # else nothing was quantized


def test_resume_equals_never_having_stopped(td3: Train) -> None:
    whole = td3("serial", name="whole", steps=1_001, final_evaluation_episodes=3)
    half = td3("serial", name="half", steps=501, final_evaluation_episodes=3)
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=1_001)
        ours, theirs = tensors(whole), tensors(resumed)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert resumed.summary["learner_steps"] > half.summary["learner_steps"]
    for field in ("environment_steps", "learner_steps", "episodes", "mean_return", "samples_per_insert"):
        assert resumed.summary[field] == whole.summary[field]


def updates_of(result: Any) -> int:
    """Updates of a run of two workers, after a check that the policy's are half of them, within one."""
    state, updates = tensors(result), result.summary["learner_steps"]
    policy_updates = state.get("policy.version", state["policy.steps"])  # a server's shards have steps only
    assert state["updates"] == updates
    assert abs(int(policy_updates) - updates // 2) <= 1
    return int(updates)


@pytest.mark.parametrize(
    "topology",
    [
        "hogwild",
        pytest.param("lock", marks=pytest.mark.slow),
        pytest.param("ad-psgd", marks=pytest.mark.slow),
        pytest.param("parameter-server", marks=pytest.mark.slow),
    ],
)
def test_workers_keep_the_policy_s_period_together_also_after_a_resumption(td3: Train, topology: str) -> None:
    """Two workers that see the policy due at the same time both update it: the policy is ahead by one at most."""
    first = td3(topology, steps=1_500, final_evaluation_episodes=0)
    updates = updates_of(first)
    assert updates > 50
    with first.run.open(first.path, writing=True) as run:
        assert updates_of(resume(run, QuietDisplay(), steps=first.summary["environment_steps"] + 1_500)) > updates
