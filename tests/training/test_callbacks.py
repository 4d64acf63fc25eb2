"""What a run calls during training, and what a callback that fails does to it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import DQN, Serial, api, errors
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training import Callback, Callbacks, Result, Trainer, progress_records, resume
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.progress_records import ProgressRecords
from headrace.training.trainer import LauncherFactory

CONFIG = RunConfig(
    "headrace.environments.toy:Corridor",
    DQN(hidden=(16,), batch_size=16, learning_starts=64, replay_capacity=1_000, samples_per_step=8),
    Serial(envs_per_actor=2, chunk_steps=10),
    steps=1_000,
    evaluation_period_steps=300,
    evaluation_episodes=2,
    final_evaluation_episodes=2,
)


def run_with(path: Path, launcher: LauncherFactory, **callbacks: Callback) -> Result:
    with RunDirectory.create(path, CONFIG.to_json()) as run:
        trainer = Trainer(CONFIG, run, QuietDisplay(), launcher=launcher, callbacks=Callbacks(**callbacks))
        return Result(run, trainer.run())


def test_callbacks_get_what_is_recorded_and_saved(tmp_path: Path, launcher: LauncherFactory) -> None:
    records: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    saved: list[tuple[bool, int]] = []

    def check(checkpoint: dict[str, Any]) -> None:
        complete = newest_checkpoint(Path(checkpoint["path"]).parent)
        saved.append((str(complete.path) == checkpoint["path"], complete.state.moment.learner_steps))

    result = run_with(
        tmp_path / "run", launcher, on_record=records.append, on_evaluation=evaluations.append, on_checkpoint=check
    )
    assert records == result.run.read_metrics()
    assert evaluations == [record for record in records if record["kind"] == "evaluation"]
    assert len(evaluations) >= 3
    assert all(complete for complete, _ in saved)
    assert saved[-1][1] == result.summary["learner_steps"] > 0


@pytest.mark.parametrize(("lasts", "times"), [(0.01, [0.0, 1.0, 2.0, 3.0]), (1.5, [0.0, 2.5, 5.0, 7.5])])
def test_training_goes_on_between_slow_calls(monkeypatch: pytest.MonkeyPatch, lasts: float, times: list[float]) -> None:
    """A record a second, but a second of training after one that takes longer."""
    clock, written = SimpleNamespace(now=0.0), []

    def write() -> None:
        written.append(clock.now)
        clock.now += lasts

    records = ProgressRecords.__new__(ProgressRecords)
    records._next = 0.0
    monkeypatch.setattr(records, "write", write)
    monkeypatch.setattr(progress_records, "monotonic", lambda: clock.now)
    while len(written) < len(times):
        records.write_when_due()
        clock.now = round(clock.now + 0.01, 2)
    assert written == times


@pytest.mark.parametrize("name", ["on_record", "on_evaluation", "on_checkpoint"])
@pytest.mark.parametrize(
    "error", [KeyError("missing"), SystemExit(3), pytest.fail.Exception("here")], ids=["error", "exit", "test"]
)
def test_an_exception_ends_the_run_which_is_saved(
    tmp_path: Path, launcher: LauncherFactory, name: str, error: BaseException
) -> None:
    calls = []

    def fail(record: dict[str, Any]) -> None:
        calls.append(record)
        if record["learner_steps"] > 0:
            raise error

    with pytest.raises(errors.LaunchError, match=f"{name} raised {type(error).__name__}: .*; the run ends$") as raised:
        run_with(tmp_path / "run", launcher, **{name: fail})
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is error
    checkpoint = newest_checkpoint(tmp_path / "run/checkpoints")
    assert checkpoint.state.moment.learner_steps >= calls[-1]["learner_steps"] > 0


@pytest.mark.parametrize("name", ["on_record", "on_evaluation", "on_checkpoint"])
def test_true_ends_the_run_as_a_stopping_rule_does(tmp_path: Path, launcher: LauncherFactory, name: str) -> None:
    def enough(record: dict[str, Any]) -> object:
        return np.float32(record.get("environment_steps", 0)) >= 300  # NumPy's True

    config = replace(CONFIG, steps=10**9)
    with RunDirectory.create(tmp_path / "run", config.to_json()) as run:
        trainer = Trainer(config, run, QuietDisplay(), launcher=launcher, callbacks=Callbacks(**{name: enough}))
        result = Result(run, trainer.run())
        again = resume(run, QuietDisplay(), steps=result.summary["environment_steps"] + 100)
    assert (result.summary["stopped_by"], result.summary["evaluation_episodes"]) == ("callback", 2)
    assert again.summary["stopped_by"] == "steps"
    assert 300 <= result.summary["environment_steps"] < again.summary["environment_steps"]


def test_a_callback_that_cannot_be_called_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="on_record is 3; it must be a function of one dict, or none"):
        headrace.train("CartPole-v1", run_dir=tmp_path / "run", on_record=3)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_callbacks_cannot_change_records(tmp_path: Path, launcher: LauncherFactory) -> None:
    seen = []

    def clear(record: dict[str, Any]) -> None:
        record.clear()

    run_with(
        tmp_path / "run", launcher, on_record=clear, on_evaluation=lambda record: seen.append(record["mean_return"])
    )
    assert seen


def test_python_s_train_and_resume_pass_callbacks_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Callbacks] = []
    for name in ("train_run", "resume_run"):
        monkeypatch.setattr(api, name, lambda *_, callbacks, **__: given.append(callbacks))
    three: list[Callback] = [lambda record, number=number: number for number in range(3)]
    names = dict(zip(("on_record", "on_evaluation", "on_checkpoint"), three, strict=True))
    headrace.train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **names)
    headrace.resume(tmp_path / "run", quiet=True, **names)
    assert given == [Callbacks(*three)] * 2


def test_a_resumed_run_calls_them(tmp_path: Path, launcher: LauncherFactory) -> None:
    run_with(tmp_path / "run", launcher)
    kinds: list[str] = []
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        resume(run, QuietDisplay(), steps=1_200, callbacks=Callbacks(lambda record: kinds.append(record["kind"])))
    assert kinds[0] == "resume"
    assert "evaluation" in kinds
