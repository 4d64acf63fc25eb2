"""Runs that go on from a checkpoint: what they keep, and what is left to do."""

import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import DQN
from headrace.errors import CheckpointError, ConfigError, StorageError
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.roles import evaluator
from headrace.roles.base import GENERATIONS_PER_START
from headrace.roles.evaluator import Score
from headrace.training import Trainer, resume, trainer
from headrace.training.checkpoint import Checkpoint, change_state, newest_checkpoint
from headrace.training.checkpoint_schedule import CheckpointSchedule
from headrace.training.continuation import restore
from headrace.training.evaluation_schedule import EvaluationSchedule
from headrace.training.session import Session

from .conftest import SMALL, TOPOLOGIES, tensors
from .test_dyna_q import PLANNING

ROOMY = dataclasses.replace(PLANNING, replay_capacity=50_000)


@pytest.mark.parametrize("environment", ["headrace.environments.toy:Corridor", "CartPole-v1"])
def test_resume_equals_never_having_stopped(train: Any, environment: str) -> None:
    settings: dict[str, Any] = {"environment": environment, "final_evaluation_episodes": 3}
    whole = train("serial", name="whole", steps=2_001, **settings)
    half = train("serial", name="half", steps=1_001, **settings)
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=2_001)
        ours, theirs = tensors(whole), tensors(resumed)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    for field in ("environment_steps", "learner_steps", "episodes", "mean_return", "samples_per_insert"):
        assert resumed.summary[field] == whole.summary[field]
    assert resumed.summary["staleness"] == pytest.approx(whole.summary["staleness"], rel=0.02)  # of open chunks: other


def test_the_rules_of_a_resumption_stay(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the same command without them goes on after a kill, whose summary is not that of the earlier end."""
    begun = train("serial", steps=20_000, until_score=-99.0, evaluation_period_steps=500)
    assert begun.summary["stopped_by"] == "score"

    def die(*_: object) -> None:
        raise StorageError("killed")  # after which nothing is saved

    with begun.run.open(begun.path, writing=True) as run:
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_train", die)
            patch.setattr(CheckpointSchedule, "save", lambda self: None)
            with pytest.raises(StorageError, match="killed"):
                resume(run, QuietDisplay(), until_score=-98.5)
        assert run.read_summary() is None
        assert json.loads(run.read_config_text())["until_score"] == -98.5
        assert resume(run, QuietDisplay()).summary["stopped_by"] == "score"
        with pytest.raises(CheckpointError, match=r"has reached its score, -98\.5"):
            resume(run, QuietDisplay())


def test_rules_of_a_resumption_that_does_not_begin_are_not_kept(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = train("serial", steps=900, final_evaluation_episodes=0)

    def refuse(*_: object) -> None:
        raise ConfigError("another environment")

    monkeypatch.setattr("headrace.training.continuation.require_spec", refuse)
    with begun.run.open(begun.path, writing=True) as run, pytest.raises(ConfigError):
        resume(run, QuietDisplay(), steps=20_000)
    assert json.loads(begun.run.read_config_text())["steps"] == 900
    assert begun.run.read_summary() is not None


def test_a_run_that_can_save_no_checkpoint_is_not_resumed(train: Any) -> None:
    begun = train("serial", steps=900, final_evaluation_episodes=0)
    (begun.run.checkpoints_path / "writing").touch()  # no directory of this name can be made
    with (
        begun.run.open(begun.path, writing=True) as run,
        pytest.raises(StorageError, match=f"can't write {begun.run.checkpoints_path}: "),
    ):
        resume(run, QuietDisplay(), steps=20_000)
    assert json.loads(begun.run.read_config_text())["steps"] == 900
    assert begun.run.read_summary() is not None


def test_no_two_starts_have_the_same_generations(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if one is killed before it saves: reports of its workers would count in the next one."""
    begun = train("serial", steps=900, final_evaluation_episodes=0)

    found = []

    def die(trainer: Trainer, *_: object) -> None:
        found.append(trainer._session.first_generation)
        raise StorageError("killed")

    with begun.run.open(begun.path, writing=True) as run, monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train", die)
        patch.setattr(CheckpointSchedule, "save", lambda self: None)
        for _ in range(2):
            with pytest.raises(StorageError, match="killed"):
                resume(run, QuietDisplay(), steps=2_000)
    assert found == [GENERATIONS_PER_START, 2 * GENERATIONS_PER_START]


def test_restoring_is_no_training(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = train("serial", steps=900, final_evaluation_episodes=0)
    before = newest_checkpoint(begun.run.checkpoints_path).state.total_seconds

    def restore_slowly(session: Session, checkpoint: Checkpoint) -> None:
        time.sleep(3.0)
        restore(session, checkpoint)

    monkeypatch.setattr(trainer, "restore", restore_slowly)
    with begun.run.open(begun.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=950)
    assert resumed.summary["wall_seconds"] < begun.summary["wall_seconds"] + 3.0
    assert resumed.summary["total_seconds"] > before + 3.0
    times = [record["seconds"] for record in run.read_metrics() if record["kind"] == "resume"]
    assert times == [begun.summary["wall_seconds"]]  # where its curve continues


def test_a_run_that_has_reached_its_score_is_resumed_with_another_one_only(train: Any) -> None:
    begun = train("serial", steps=20_000, until_score=-99.0, evaluation_period_steps=500)
    assert begun.summary["stopped_by"] == "score"
    with (
        begun.run.open(begun.path, writing=True) as run,
        pytest.raises(CheckpointError, match="has reached its score, -99"),
    ):
        resume(run, QuietDisplay())


@pytest.mark.parametrize(
    ("topology", "period"),
    [("serial", {"evaluation_period_steps": 500}), ("apex", {"evaluation_period_seconds": 0.5}),
     ("hogwild", {"evaluation_period_seconds": 0.5})],
)  # fmt: skip
def test_a_run_that_was_killed_between_its_score_and_its_summary_is_resumed_for_that_only(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str, period: dict[str, Any]
) -> None:
    def killed(*_: object) -> None:
        raise StorageError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_summary", killed)
        with pytest.raises(StorageError, match="killed"):
            train(topology, steps=10**7, until_score=-99.0, **period)
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        state = newest_checkpoint(run.checkpoints_path).state
        assert state.solved
        summary = resume(run, QuietDisplay()).summary
        assert (summary["stopped_by"], summary["solved"]) == ("score", True)
        assert summary["learner_steps"] == state.learner_steps
        assert summary["environment_steps"] == state.environment_steps
        assert summary["steps_to_score"] == state.evaluations["last"][2][0]
        assert summary["seconds_to_score"] == state.evaluations["last"][2][2]
        with pytest.raises(CheckpointError, match="has reached its score, -99"):
            resume(run, QuietDisplay())
        again = resume(run, QuietDisplay(), steps=state.environment_steps + 600).summary
        assert again["learner_steps"] > state.learner_steps


def evaluations(result: Any) -> list[dict[str, Any]]:
    """Those that are no run's last, but for when they were made."""
    told = [record for record in result.run.read_metrics() if record["kind"] == "evaluation"]
    return [{**record, "seconds": 0} for record in told if record["episodes"] == 2]


PERIODIC = {"evaluation_period_steps": 500, "evaluation_episodes": 2, "final_evaluation_episodes": 3}


def test_an_evaluation_due_at_the_stop_is_made_after_resuming(train: Any) -> None:
    whole = train("serial", name="whole", steps=1_600, **PERIODIC)
    half = train("serial", name="half", steps=1_000, **PERIODIC)
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=1_600)
    assert [record["environment_steps"] for record in evaluations(whole)] == [500, 1_000, 1_500]
    assert evaluations(resumed) == evaluations(whole)


def test_an_interrupted_evaluation_is_made_after_resuming(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("serial", name="whole", steps=1_600, **PERIODIC)

    def never_ends(*given: Any) -> Score:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            given[4]()  # raises once the evaluator is stopped
            time.sleep(0.01)

    with monkeypatch.context() as patched:
        patched.setattr(evaluator, "play", never_ends)
        cut = train("serial", name="cut", steps=1_600, **PERIODIC)
    assert (cut.summary["stopped_by"], cut.summary["environment_steps"], evaluations(cut)) == ("interrupt", 500, [])
    with cut.run.open(cut.path, writing=True) as run:
        resumed = resume(run, QuietDisplay())
    assert evaluations(resumed) == evaluations(whole)
    ours, theirs = tensors(whole), tensors(resumed)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def die() -> None:
    raise StorageError("killed")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("topology", "stop", "call"),
    [(topology, stop, "evaluate") for topology in TOPOLOGIES for stop in (die, interrupt)]
    + [("apex", interrupt, "save"), ("serial", die, "save_final_evaluation")],
)
def test_a_final_evaluation_that_was_prevented_is_made_after_resuming(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str, stop: Callable[[], None], call: str
) -> None:
    """Without another step of training."""
    kind = EvaluationSchedule if call == "evaluate" else CheckpointSchedule
    method = getattr(kind, call)

    def call_and_stop(self: Any, *given: Any, **options: Any) -> None:
        method(self, *given, **options)
        if given in ((), (3,)) and self._session.monitor.environment_steps >= 600:
            stop()

    with monkeypatch.context() as patched:
        patched.setattr(kind, call, call_and_stop)
        with contextlib.suppress(StorageError):
            train(topology, steps=600, final_evaluation_episodes=3, evaluation_period_seconds=1e6)
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        before = newest_checkpoint(run.checkpoints_path)
        learned = before.learner()
        if call == "save_final_evaluation":
            run.summary_path.write_text("broken")
        else:
            assert (run.read_summary() or {}).get("stopped_by") == (None if stop is die else "interrupt")
        resumed = resume(run, QuietDisplay())
        assert all(np.array_equal(value, learned[name]) for name, value in tensors(resumed).items())
        assert resumed.summary["stopped_by"] == "steps"
        assert resumed.summary["evaluation_episodes"] == 3
        assert resumed.summary["environment_steps"] == before.state.environment_steps
        assert resumed.summary["learner_steps"] == before.state.learner_steps
        assert resumed.summary["actor_times"]["environment"] >= before.state.actor_seconds["environment"] > 0
        assert resumed.summary["learner_times"]["train"] >= before.state.learner_seconds["train"] > 0
        with pytest.raises(CheckpointError, match=r"has done .* of its 600 steps"):
            resume(run, QuietDisplay())


def test_a_run_that_has_used_its_time_asks_for_more(train: Any) -> None:
    begun = train("serial", time_limit_seconds=0.05, final_evaluation_episodes=0)
    with (
        begun.run.open(begun.path, writing=True) as run,
        pytest.raises(CheckpointError, match=r"has trained .* of its 0 s; give more with --time-limit"),
    ):
        resume(run, QuietDisplay())


def test_an_evaluation_pending_at_the_limit_is_made_without_training(
    train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "available_cores", lambda: 16)  # so that evaluations pause no training
    begun = train("apex", steps=1_000, final_evaluation_episodes=3, evaluation_period_seconds=1e6)
    change_state(begun.run.checkpoints_path, awaited_episodes=2)
    begun.run.summary_path.unlink()
    with begun.run.open(begun.path, writing=True) as run:
        resumed = resume(run, QuietDisplay())
        made = [record["episodes"] for record in run.read_metrics() if record["kind"] == "evaluation"]
    assert made == [3, 2, 3]
    for name in ("environment_steps", "learner_steps"):
        assert resumed.summary[name] == begun.summary[name]


@pytest.mark.parametrize(("topology", "algorithm"), [("apex", SMALL), ("apex", ROOMY), ("serial", ROOMY)])
def test_a_run_is_resumed_with_its_replay(train: Any, topology: str, algorithm: DQN) -> None:
    half = train(topology, algorithm=algorithm, steps=1_000, final_evaluation_episodes=0)
    with half.run.open(half.path, writing=True) as run:
        wanted = half.summary["environment_steps"] + 1_000
        resumed = resume(run, QuietDisplay(), steps=wanted)
    assert resumed.summary["environment_steps"] >= wanted
    assert resumed.summary["learner_steps"] > half.summary["learner_steps"]
    assert resumed.summary["replay_size"] >= half.summary["replay_size"] + 900  # but for steps in no chunk yet
