"""Whole small runs of every topology, the roles as threads."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import ConfigError, EnvironmentFault, LaunchError, StorageError
from headrace.launch.config import Processes
from headrace.launch.simulated import Simulated
from headrace.topologies.serial.program import SerialProgram
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.evaluation import Evaluations

from .conftest import TOPOLOGIES, Messages, tensors

SOLVED = 1.0


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_learns_the_corridor_and_stops_at_the_score(train: Any, topology: str) -> None:
    periods = {"evaluation_period_seconds": 1, "evaluation_period_steps": 1_000}
    result = train(topology, launcher=Simulated(), until_score=SOLVED, steps=40_000, **periods)
    assert result.summary["solved"]
    assert result.summary["stopped_by"] == "score"
    assert result.summary["evaluation_episodes"] == 100
    assert result.summary["mean_return"] == SOLVED
    assert 0 < result.summary["seconds_to_score"] <= result.summary["wall_seconds"]
    assert result.evaluate(episodes=3).returns == [SOLVED] * 3


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_run_directory_and_summary(train: Any, topology: str) -> None:
    result = train(topology, steps=2_000, evaluation_period_seconds=0.5, evaluation_period_steps=1_000)
    summary = result.run.read_summary()
    assert summary == json.loads(json.dumps(result.summary))
    assert summary["environment_steps"] >= 2_000
    assert summary["learner_steps"] > 0
    assert summary["episodes"] > 0
    assert summary["stopped_by"] == "steps"
    assert set(summary["actor_times"]) == {"environment", "inference", "pull", "load", "push", "blocked", "other"}
    assert set(summary["learner_times"]) == {"wait", "transfer", "train", "priorities", "publish", "other"}
    assert summary["actor_times"]["environment"] > 0
    assert summary["learner_times"]["train"] > 0
    kinds = [record["kind"] for record in result.run.read_metrics()]
    assert kinds.count("evaluation") >= 1
    assert list(result.run.tensorboard_path.iterdir())
    assert list(result.run.checkpoints_path.glob("*-updates-*/manifest.json"))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_replay_ratio_is_the_same_in_every_topology(train: Any, topology: str) -> None:
    result = train(topology, steps=6_000, final_evaluation_episodes=0, evaluation_period_steps=10**6)
    # 8 samples per step, but for the 200 steps before learning starts and the limiter's tolerance.
    sampled = result.summary["learner_steps"] * 32
    inserted = result.summary["environment_steps"] - 200
    tolerance = 32 + 2 * 8 * 10 * 4
    assert abs(sampled - 8 * inserted) <= 8 * 4 * (10 + 3) + 2 * tolerance


@pytest.mark.parametrize(
    ("learning_starts", "limit", "said"),
    [(200, {"steps": 150}, 1), (40_000, {"time_limit_seconds": 0.05}, 1), (200, {"steps": 400}, 0)],
)
def test_a_run_without_an_update_says_so(train: Any, learning_starts: int, limit: dict[str, Any], said: int) -> None:
    display = Messages()
    train("serial", display=display, algorithm={"learning_starts": learning_starts}, **limit)
    told = [text for text in display.texts if text.startswith("no update was made")]
    assert len(told) == said
    assert all(f"before {learning_starts:,} transitions were stored" in text for text in told)


@pytest.mark.parametrize(
    "switches",
    [
        {"double": False, "dueling": False, "n_step": 1, "prioritized": False, "loss": "squared"},
        {"dueling": True, "target_update_period": 1, "target_update_rate": 0.01, "max_gradient_norm": 0.0},
    ],
)
def test_switches(train: Any, switches: dict[str, Any]) -> None:
    result = train("serial", algorithm=switches, steps=1_000, final_evaluation_episodes=2)
    assert result.summary["learner_steps"] > 50


@pytest.mark.parametrize("topology", ["serial", "hogwild"])
def test_an_engine_that_cannot_compute_the_network_is_refused(train: Any, topology: str) -> None:
    with pytest.raises(ConfigError, match="learner_engine is native and network is nature"):
        train(topology, environment="ALE/Breakout-v5", algorithm={"network": "nature"}, learner_engine="native")


def test_torch_s_engine_is_the_same_bit_for_bit(train: Any) -> None:
    settings = {"steps": 600, "final_evaluation_episodes": 0, "learner_engine": "torch"}
    first, second = (tensors(train("serial", name=name, **settings)) for name in ("first", "second"))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_serial_is_the_same_bit_for_bit(train: Any) -> None:
    settings = {"steps": 1_500, "final_evaluation_episodes": 5, "evaluation_period_steps": 500}
    first, second = (train("serial", name=name, **settings) for name in ("first", "second"))
    other = train("serial", name="other", seed=1, **settings)
    ours, theirs, others = tensors(first), tensors(second), tensors(other)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert any(not np.array_equal(ours[name], others[name]) for name in ours)
    assert first.summary["mean_return"] == second.summary["mean_return"]


def test_a_launcher_that_fails_at_the_start_is_one_line(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processes, "open", lambda self, seed: 1 / 0)
    with pytest.raises(LaunchError, match=r"^training failed: ZeroDivisionError: .*; where: .*training\.log$"):
        train("serial")


def test_a_mistake_at_the_end_of_a_run_loses_nothing(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    close = SerialProgram.close

    def close_and_fail(program: SerialProgram) -> None:
        close(program)
        raise ValueError("no end")

    monkeypatch.setattr(SerialProgram, "close", close_and_fail)
    messages = Messages()
    assert train("serial", steps=600, display=messages).summary["stopped_by"] == "steps"
    assert any(text.startswith("the run did not end as it should: ValueError: no end") for text in messages.texts)


def test_a_directory_renamed_while_an_evaluation_pauses_training_is_noticed(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Evaluations._publish

    def rename(evaluations: Evaluations, request: Any) -> None:
        if request.episodes == 7:
            time.sleep(2)  # after the last record: no one answers, so that nothing is recorded any more
            (tmp_path / "run").rename(tmp_path / "moved")
        else:
            publish(evaluations, request)

    monkeypatch.setattr(Evaluations, "_publish", rename)
    with pytest.raises(StorageError, match=r"was renamed to .*moved during the run"):
        train("apex", steps=600, evaluation_period_seconds=1e6, final_evaluation_episodes=7)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_atari_sized_frames_are_stored_once(train: Any, topology: str) -> None:
    result = train(
        topology,
        environment="ALE/Breakout-v5",
        algorithm={"network": "nature", "learning_starts": 200, "samples_per_step": 0.5, "replay_capacity": 1_000},
        steps=600,
        final_evaluation_episodes=0,
    )
    assert result.summary["learner_steps"] > 0
    # chunks of 10 transitions, not 50: (10 + 3 + 3) frames of 7,056 bytes for 10, at most
    assert result.summary["replay_bytes"] / result.summary["replay_size"] < 7_056 * 1.6 + 100


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("toy", "field"), [("NanObservation", "observation"), ("InfReward", "reward")])
def test_values_that_are_not_finite_stop_the_run(train: Any, topology: str, toy: str, field: str) -> None:
    with pytest.raises(EnvironmentFault, match=rf"step 7: {field}"):
        train(topology, environment=f"headrace.environments.toy:{toy}", steps=10_000)


def test_the_final_evaluation_is_in_the_last_checkpoint(train: Any) -> None:
    result = train("serial", steps=400, final_evaluation_episodes=3)
    returns, _, moment = newest_checkpoint(result.run.checkpoints_path).state.evaluations["last"]
    assert len(returns) == 3
    assert result.summary["mean_return"] == np.mean(returns)
    assert moment[0] == result.summary["environment_steps"]
