"""Whole small runs of SAC, CrossQ, TD3 and D4PG, the roles as threads."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.crossq.config import CrossQ
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.sac.config import SAC
from headrace.algorithms.td3.config import TD3
from headrace.launch.simulated import Simulated
from headrace.report.display import QuietDisplay
from headrace.roles import gate
from headrace.training import Result, resume

from . import conftest
from .conftest import Train, tensors

TARGET = "headrace.environments.toy:Target"
COMMON: dict[str, Any] = {
    "hidden": (64, 64),
    "critic_hidden": (64, 64),
    "batch_size": 64,
    "discount": 0.9,
    "replay_capacity": 20_000,
    "learning_starts": 200,
    "publish_period": 5,
}
SMALL = {
    "sac": SAC(
        **COMMON,
        n_step=3,
        learning_rate=1e-3,
        critic_learning_rate=1e-3,
        temperature_learning_rate=1e-3,
        initial_temperature=0.1,
        target_update_rate=0.02,
        samples_per_step=16.0,
    ),
    "crossq": CrossQ(
        **COMMON,
        learning_rate=1e-3,
        critic_learning_rate=1e-3,
        temperature_learning_rate=1e-3,
        initial_temperature=0.1,
        policy_update_period=2,
        renormalization_starts=100,
        samples_per_step=16.0,
    ),
    "td3": TD3(
        **COMMON,
        n_step=3,
        learning_rate=2e-3,
        critic_learning_rate=2e-3,
        target_update_rate=0.05,
        sigmas=(0.2, 0.5),
        samples_per_step=32.0,
    ),
    "d4pg": D4PG(
        **COMMON,
        n_step=3,
        learning_rate=1e-3,
        critic_learning_rate=1e-3,
        target_update_period=20,
        value_min=0.0,
        value_max=10.0,
        sigmas=(0.2, 0.5),
        samples_per_step=16.0,
    ),
}
WORKERS = [
    "hogwild",
    pytest.param("ad-psgd", marks=pytest.mark.slow),
    pytest.param("parameter-server", marks=pytest.mark.slow),
]


@pytest.fixture
def run(train: Train, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a point to go to its target, with one of SMALL; actors of the Apex topology act in int8."""
    apex = dataclasses.replace(conftest.TOPOLOGIES["apex"], precision="int8")
    monkeypatch.setitem(conftest.TOPOLOGIES, "apex", apex)

    def start(algorithm: str, topology: str, **settings: Any) -> Result:
        return train(topology, algorithm=SMALL[algorithm], environment=TARGET, **settings)

    return start


def resume_until(result: Result, steps: int) -> Result:
    """Resumes a run, which ends after so many environment steps in all."""
    with result.run.open(result.path, writing=True) as directory:
        return resume(directory, QuietDisplay(), steps=steps)


@pytest.mark.parametrize("algorithm", SMALL)
def test_learns_the_target_with_int8_actors(run: Train, algorithm: str) -> None:
    result = run(algorithm, "apex", launcher=Simulated(), steps=4_000, final_evaluation_episodes=100)
    assert result.summary["mean_return"] >= 9.2  # 9.81 is the most, 6.67 to stand still
    [first, *_] = [record for record in result.run.read_metrics() if record["kind"] == "quantization"]
    assert 0 < first["largest"] < 0.1 * first["largest_output"]  # else nothing was quantized
    assert first["bytes"] < 0.5 * first["parameter_bytes"]


@pytest.mark.parametrize("algorithm", SMALL)
def test_serial_is_the_same_bit_for_bit(run: Train, algorithm: str) -> None:
    settings = {"steps": 800, "final_evaluation_episodes": 5}
    first, second = (run(algorithm, "serial", name=name, **settings) for name in ("first", "second"))
    other = run(algorithm, "serial", name="other", seed=1, **settings)
    ours, theirs, others = tensors(first), tensors(second), tensors(other)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert any(not np.array_equal(ours[name], others[name]) for name in ours)
    assert first.summary["learner_steps"] > 50
    assert first.summary["mean_return"] == second.summary["mean_return"]


@pytest.mark.parametrize("algorithm", SMALL)
def test_resume_equals_never_having_stopped(run: Train, algorithm: str) -> None:
    whole = run(algorithm, "serial", name="whole", steps=1_001, final_evaluation_episodes=3)
    half = run(algorithm, "serial", name="half", steps=501, final_evaluation_episodes=3)
    resumed = resume_until(half, 1_001)
    ours, theirs = tensors(whole), tensors(resumed)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert resumed.summary["learner_steps"] > half.summary["learner_steps"]
    for field in ("environment_steps", "learner_steps", "episodes", "mean_return", "samples_per_insert"):
        assert resumed.summary[field] == whole.summary[field]


@pytest.mark.parametrize("topology", WORKERS)
@pytest.mark.parametrize(
    ("algorithm", "vectors", "per_update", "open_ones"),
    [
        ("sac", ("policy", "critics", "temperature"), 3.0, 6),
        # policy, its statistics, temperature: half as many
        ("crossq", ("policy", "critics", "temperature", "policy_statistics", "critic_statistics"), 3.5, 10),
    ],
)
def test_workers_share_all_vectors_and_a_run_of_them_resumes(
    run: Train, topology: str, algorithm: str, vectors: tuple[str, ...], per_update: float, open_ones: int
) -> None:
    """Each update has `per_update` accepted gradients; up to `open_ones` are missing when the run ends."""
    first = run(algorithm, topology, steps=1_500, final_evaluation_episodes=0)
    updates = first.summary["learner_steps"]
    before = tensors(first)
    assert updates > 50
    assert first.summary["workers"]["accepted"] >= per_update * updates - open_ones
    second = resume_until(first, first.summary["environment_steps"] + 1_500)
    after = tensors(second)
    assert second.summary["learner_steps"] > updates
    for vector in vectors:
        assert not np.array_equal(after[f"{vector}.parameters"], before[f"{vector}.parameters"])


def updates_of(result: Result) -> int:
    """Updates of a run of two workers, after a check that the policy's are half of them, within one."""
    state, updates = tensors(result), result.summary["learner_steps"]
    policy_updates = state.get("policy.version", state["policy.steps"])  # a server's shards have steps only
    assert state["updates"] == updates
    assert abs(int(policy_updates) - updates // 2) <= 1
    return int(updates)


@pytest.mark.parametrize("topology", [*WORKERS, pytest.param("lock", marks=pytest.mark.slow)])
def test_workers_keep_the_policy_s_period_together_also_after_a_resumption(
    run: Train, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that see the policy due at the same time both update it: the policy is ahead by one at most."""
    monkeypatch.setattr(gate, "_HOLD_SECONDS", 60.0)  # their last turns are waited for even on a busy machine
    first = run("td3", topology, steps=1_500, final_evaluation_episodes=0)
    updates = updates_of(first)
    assert updates > 50
    assert updates_of(resume_until(first, first.summary["environment_steps"] + 1_500)) > updates
