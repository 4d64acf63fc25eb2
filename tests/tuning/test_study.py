"""Studies without training: what is pruned, kept, continued and refused."""

import dataclasses
import errno
from pathlib import Path
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend

from headrace import Apex
from headrace.errors import CheckpointError, ConfigError, StorageError
from headrace.settings import RunConfig, ServerConfig
from headrace.tuning.results import trial_table, write_results
from headrace.tuning.study import Study
from headrace.tuning.trial import Outcome, Trial


def evaluation(steps: int, score: float) -> dict[str, Any]:
    return {"kind": "evaluation", "environment_steps": steps, "seconds": 1.0, "mean_return": score}


def begin(study: Study) -> Trial:
    trial = study.start()
    assert trial is not None
    return trial


def play(study: Study, *scores: float) -> None:
    """A complete trial of 800 steps with evaluations at equal distances."""
    trial = begin(study)
    for index, score in enumerate(scores, start=1):
        assert not study.report(trial.number, evaluation(800 * index // len(scores), score))
    study.end(trial.number, Outcome(scores[-1], 800, 1.0))


def test_each_trial_has_its_own_seed_directory_and_values(open_study: Any, config: RunConfig) -> None:
    study = open_study(config)
    first, second = begin(study), begin(study)
    assert [trial.config.seed for trial in (first, second)] == [0, 1]
    assert [trial.path.name for trial in (first, second)] == ["0000", "0001"]
    rates = {trial.config.algorithm.learning_rate for trial in (first, second)}
    assert len(rates) == 2
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)


def test_rows_are_ranked_by_score_and_state(open_study: Any) -> None:
    study = open_study()
    trials = [begin(study).number for _ in range(5)]
    study.end(trials[0], Outcome(1.0, 800, 2.0))
    study.end(trials[1], Outcome(error="diverged"))
    study.end(trials[2], Outcome(3.0, 800, 2.0))
    study.end(trials[3], Outcome(interrupted=True))
    assert [(row.number, row.state, row.score, row.note) for row in study.rows()] == [
        (2, "complete", 3.0, ""),
        (0, "complete", 1.0, ""),
        (1, "failed", None, "diverged"),
        (3, "interrupted", None, ""),
    ]
    assert study.trials == 4  # one still runs, and the interrupted one does not count


def test_a_trial_below_the_median_of_five_is_pruned(open_study: Any) -> None:
    study = open_study()
    for _ in range(5):
        play(study, 10.0, 20.0, 30.0, 40.0)
    trial = begin(study)
    assert not study.report(trial.number, evaluation(100, 0.0))  # too early
    assert study.report(trial.number, evaluation(420, 5.0))
    study.end(trial.number, Outcome(5.0, 430, 1.0, interrupted=True))
    [row] = [row for row in study.rows() if row.number == trial.number]
    assert (row.state, row.score, row.environment_steps) == ("pruned", 5.0, 430)


def test_a_pruned_trial_that_ends_by_itself_is_complete(open_study: Any) -> None:
    study = open_study()
    for _ in range(5):
        play(study, 10.0, 20.0, 30.0, 40.0)
    trial = begin(study)
    assert study.report(trial.number, evaluation(700, 5.0))
    assert not study.report(trial.number, evaluation(800, 6.0))  # the run is over
    study.end(trial.number, Outcome(6.0, 800, 1.0))
    assert [row.state for row in study.rows()] == ["complete"] * 6


def test_scores_between_evaluations_are_interpolated(open_study: Any) -> None:
    study = open_study()
    trial = begin(study)
    study.report(trial.number, evaluation(200, 1.0))
    study.report(trial.number, evaluation(320, 4.0))
    study.end(trial.number, Outcome(4.0, 800, 1.0))
    assert study.rows()[0].curve == pytest.approx({5: 1.0, 6: 2.0, 7: 3.0, 8: 4.0})


def test_a_study_continues_with_its_trials_and_other_values(open_study: Any) -> None:
    study = open_study()
    first = begin(study)
    study.end(first.number, Outcome(1.0, 800, 1.0))
    left = begin(study)  # as if the process were killed
    study = open_study()
    assert [(row.number, row.state) for row in study.rows()] == [(0, "complete"), (1, "interrupted")]
    assert study.trials == 1
    following = begin(study)
    assert following.number == 2
    rates = {trial.config.algorithm.learning_rate for trial in (first, left, following)}
    assert len(rates) == 3


def test_a_trial_whose_settings_were_not_chosen_is_left_out_of_tables(open_study: Any, tmp_path: Path) -> None:
    study = open_study()
    study._study.ask()  # as if the process were killed before the study has chosen
    study = open_study()
    [row] = study.rows()
    assert (row.state, row.settings) == ("interrupted", {})
    spaces = study._spaces
    assert trial_table(study.rows(), spaces).row_count == 1
    write_results(study.rows(), spaces, tmp_path, "title")
    assert begin(study).number == 1


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "a\udcffb"])
def test_a_directory_whose_name_can_t_be_printed_is_refused(config: RunConfig, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="it must be a path that can be printed"):
        Study(tmp_path / name, config, [], print, parallel=1)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused(open_study: Any, config: RunConfig) -> None:
    open_study()
    with pytest.raises(ConfigError, match=r"other settings .*steps is 800 there and 900 here"):
        open_study(dataclasses.replace(config, steps=900))
    with pytest.raises(ConfigError, match=r"other settings .*discount is None there and uniform:0.9:0.99 here"):
        open_study(config, discount="uniform:0.9:0.99")


def test_a_study_is_open_once(open_study: Any, config: RunConfig) -> None:
    study = open_study()
    with pytest.raises(CheckpointError, match="in use"):
        Study(study.path, config, [], print, parallel=1)


def test_other_files_are_refused(open_study: Any, config: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "notes.txt").touch()
    with pytest.raises(CheckpointError, match="holds other files"):
        open_study()
    assert not (tmp_path / "study" / "trials").exists()
    for text in ("notes\n", "notes"):
        (tmp_path / "study" / "study.log").write_text(text)
        with pytest.raises(CheckpointError, match="is not a study"):
            open_study()
        assert (tmp_path / "study" / "study.log").read_text() == text


def test_a_directory_whose_process_was_killed_at_its_start_is_used(open_study: Any, tmp_path: Path) -> None:
    (tmp_path / "study" / "trials").mkdir(parents=True)
    (tmp_path / "study" / "study.log").touch()
    assert open_study().rows() == []


def test_trials_whose_log_is_empty_are_not_replaced(open_study: Any, tmp_path: Path) -> None:
    (tmp_path / "study" / "trials" / "0000").mkdir(parents=True)
    (tmp_path / "study" / "study.log").touch()
    with pytest.raises(CheckpointError, match=r"study\.log is empty"):
        open_study()
    assert (tmp_path / "study" / "study.log").read_bytes() == b""


def test_a_trial_must_end_and_have_its_own_server(open_study: Any, config: RunConfig) -> None:
    with pytest.raises(ConfigError, match="steps is none; it must be given, or a time limit"):
        open_study(dataclasses.replace(config, steps=None, until_score=1.0))
    with pytest.raises(ConfigError, match="server is unix:x; it must be left out"):
        open_study(dataclasses.replace(config, topology=Apex(), server=ServerConfig("unix:x")))


def test_the_same_mistake_three_times_ends_the_study(open_study: Any) -> None:
    study = open_study()
    for _ in range(2):
        study.end(begin(study).number, Outcome(error="no such environment", mistake=True))
    with pytest.raises(ConfigError, match="the first 3 trials failed: no such environment"):
        study.end(begin(study).number, Outcome(error="no such environment", mistake=True))


@pytest.mark.parametrize(
    "outcomes",
    [
        [Outcome(error="diverged")] * 3,
        [Outcome(error="a", mistake=True), Outcome(error="b", mistake=True), Outcome(error="b", mistake=True)],
        [Outcome(1.0), *[Outcome(error="a", mistake=True)] * 3],
    ],
)
def test_other_failures_do_not(open_study: Any, outcomes: list[Outcome]) -> None:
    study = open_study()
    for outcome in outcomes:
        study.end(begin(study).number, outcome)
    assert study.trials == len(outcomes)


def test_values_that_do_not_fit_together_fail_their_trial(open_study: Any, config: RunConfig) -> None:
    study = open_study(config, **{"batch-size": "choice:3000", "learning-starts": "choice:4000"})
    assert begin(study).number == 0
    small = dataclasses.replace(config.algorithm, replay_capacity=200)  # too small for the two together
    study.config = dataclasses.replace(config, algorithm=small)
    assert study.start() is None
    assert [(row.number, row.state) for row in study.rows()] == [(1, "failed")]


def test_a_trial_that_dies_keeps_its_last_evaluation(open_study: Any) -> None:
    study = open_study()
    trial = begin(study)
    study.report(trial.number, evaluation(300, 2.0))
    study.end(trial.number, Outcome(error="its process died"))
    [row] = study.rows()
    assert (row.state, row.score, row.environment_steps, row.seconds) == ("failed", 2.0, 300, 1.0)


def test_a_lock_that_a_killed_process_left_is_removed(open_study: Any) -> None:
    study = open_study()
    (study.path / "study.log.lock").symlink_to("study.log")
    assert open_study().rows() == []


def test_an_unfinished_line_is_removed(open_study: Any, tmp_path: Path) -> None:
    """As a process that is killed while it writes leaves it."""
    play(open_study(), 1.0, 2.0)
    log = tmp_path / "study/study.log"
    log.write_bytes(log.read_bytes()[:-10])
    for count in (1, 2):
        study = open_study()
        assert len(study.rows()) == count
        play(study, 3.0)
    assert [row.state for row in open_study().rows()] == ["complete", "complete", "interrupted"]


def test_a_full_disk_is_one_line_and_the_study_goes_on(
    open_study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study()
    play(study, 1.0)

    def write(self: object, logs: list[dict[str, Any]]) -> None:
        with (tmp_path / "study/study.log").open("ab") as file:
            file.write(b'{"op_code": 4, "wor')
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JournalFileBackend, "append_logs", write)
        with pytest.raises(StorageError, match=r"can't write .*study.log: No space left on device"):
            study.start()
    play(open_study(), 2.0)
    assert [row.score for row in open_study().rows()] == [2.0, 1.0]


def test_no_message_has_a_password(open_study: Any, config: RunConfig) -> None:
    server = ServerConfig("redis://:hunter2@127.0.0.1:6379")
    with pytest.raises(ConfigError, match=r"server is redis://127\.0\.0\.1:6379; it must be left out"):
        open_study(dataclasses.replace(config, topology=Apex(), server=server))
