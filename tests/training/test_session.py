"""What a session's parts write and decide: records, checkpoints, where a resumed run's experience comes from."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headrace.report.events import scalars
from headrace.report.run_directory import RunDirectory
from headrace.roles.base import RUN
from headrace.servers import Endpoint
from headrace.settings import RunConfig
from headrace.training import checkpoint_schedule
from headrace.training.checkpoint_schedule import CheckpointSchedule
from headrace.training.clock import TrainingClock
from headrace.training.continuation import restore_experience
from headrace.training.evaluation import Evaluation, Moment
from headrace.training.progress_records import ProgressRecords
from headrace.training.run_publisher import RunPublisher
from headrace.training.summary import summarize

from .conftest import Messages, make_session


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.create(tmp_path / "run", "{}") as directory:
        yield directory


def records(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def test_a_measurement_has_environment_steps_and_an_event_has_none(run: RunDirectory) -> None:
    """So that only measurements become curves of TensorBoard."""
    session = make_session(run=run, clock=Mock(seconds=2.5), monitor=Mock(environment_steps=700))
    session.record("planning", error=0.5)
    session.record_event("resume", seconds=1.0, resumptions=2)
    measured, event = records(run)
    assert measured == {"kind": "planning", "seconds": 2.5, "environment_steps": 700, "error": 0.5}
    assert event == {"kind": "resume", "seconds": 1.0, "resumptions": 2}
    assert [tag for tag, _ in scalars(measured)] == ["planning/seconds", "planning/error"]


def test_a_summary_says_when_the_score_was_reached() -> None:
    reached = Evaluation([200.0], [9], Moment(1_000, 250, 4.0))
    config = RunConfig("CartPole-v1", until_score=195.0)
    evaluations, learner = Mock(last=reached, solved_at=reached), Mock(clock=Mock(seconds={}))
    session = make_session(
        config=config, clock=Mock(seconds=9.0), evaluations=evaluations, program=Mock(learner=learner)
    )
    stats = {"samples_per_insert": 8.0, "size": 10, "used_bytes": 100}
    summary = summarize(session, stats, exits=[], places={}, busy_cores={}, stopped_by="score")
    assert (summary["seconds_to_score"], summary["steps_to_score"], summary["wall_seconds"]) == (4.0, 1_000, 9.0)


def test_records_of_one_moment_have_its_time(run: RunDirectory) -> None:
    """Although the user's function, which the first one is passed to, takes a while."""
    clock, program = Mock(seconds=3.0), Mock()
    progress = Mock(seconds=3.0, environment_steps=90)
    progress.to_record.return_value = {"kind": "progress", "seconds": 3.0}
    monitor = Mock(environment_steps=90)
    monitor.snapshot.return_value = progress
    program.figures.return_value = {"updates": 5}
    session = make_session(run=run, clock=clock, program=program, monitor=monitor)
    clock.seconds = 2.0  # of the record before

    def slowly(_: object) -> None:
        clock.seconds = 4.0

    run.add_sink(Mock(append=slowly))
    shown = ProgressRecords(session, Mock(ended=False))
    shown.write()
    shown.write()  # the clock stands still
    assert [(each["kind"], each["seconds"]) for each in records(run)] == [("progress", 3.0), ("workers", 3.0)]


def test_a_run_is_saved_when_that_is_due_and_not_while_an_evaluation_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, save = Mock(seconds=0.5, paused=False), Mock()
    session = make_session(clock=clock, program=Mock(learner=Mock(steps=0)), config=Mock(checkpoint_period_seconds=9.0))
    monkeypatch.setattr(CheckpointSchedule, "save", save)
    monkeypatch.setattr(checkpoint_schedule, "monotonic", Mock(return_value=7.0))
    schedule = CheckpointSchedule(session, Mock(), Mock(), None, local_actors=True)
    schedule.save_when_due()  # nothing was learned
    session.learner.steps, clock.paused = 1, True
    schedule.save_when_due()
    assert not save.called
    clock.paused = False
    schedule.save_when_due()
    schedule.save_when_due()
    assert save.call_count == 1
    assert schedule.next_seconds == 1.5  # the shortest pause later
    clock.seconds = 20.0
    schedule.save_when_due()
    assert schedule.next_seconds == 29.0  # the longest


@pytest.mark.parametrize("trained", [0.5, 4.0])
def test_a_resumed_run_saves_as_early_as_one_that_never_stopped(trained: float) -> None:
    session = make_session(config=Mock(checkpoint_period_seconds=3.0))
    resumed = CheckpointSchedule(session, Mock(), Mock(), Mock(state=Mock(seconds=trained)), local_actors=True)
    assert resumed.next_seconds == trained + min(max(trained, 1.0), 3.0)


@pytest.mark.parametrize(
    ("keeps", "size", "workers", "saves", "deterministic", "restored", "said"),
    [
        (True, 5_000, False, True, False, False, "continues with the 5,000 transitions that run mine has"),
        (True, 0, False, True, False, False, "continues with the 0 transitions"),
        (True, 0, True, True, False, True, ""),
        (False, 0, False, True, False, True, ""),
        (False, 0, True, False, False, False, "the workers gather new experience"),
        (False, 0, False, False, True, False, ""),
    ],
    ids=["kept", "kept, empty", "dropped", "own server", "workers", "without replay"],
)
def test_where_the_experience_of_a_resumed_run_comes_from(
    keeps: bool, size: int, workers: bool, saves: bool, deterministic: bool, restored: bool, said: str
) -> None:
    program = Mock(saves_experience=saves, deterministic=deterministic)
    program.table.stats.return_value = {"size": size}
    display, checkpoint = Messages(), Mock()
    session = make_session(
        program=program,
        display=display,
        server=Mock(keeps_experience=keeps),
        separate_server=Endpoint("tcp://h:1", "mine") if keeps else None,
        config=Mock(topology=Mock(has_workers=workers)),
    )
    restore_experience(session, checkpoint)
    assert checkpoint.restore_replay.called == restored
    assert (said in display.texts[0]) if said else not display.texts


@pytest.mark.parametrize(("actors", "workers", "counts"), [(2, False, True), (2, True, False), (0, False, False)])
def test_actors_alone_do_not_know_when_they_are_held(actors: int, workers: bool, counts: bool) -> None:
    program, monitor = Mock(actors=[Mock()] * actors), Mock()
    make_session(program=program, monitor=monitor, topology=Mock(has_workers=workers)).skip(3.0)
    program.skip.assert_called_once_with(3.0)
    assert monitor.skip.called == counts


def test_total_seconds_include_those_that_are_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Mock(return_value=100.0)
    monkeypatch.setattr("headrace.training.clock.monotonic", now)
    clock = TrainingClock(5.0, 8.0)
    now.return_value = 103.0
    clock.pause()
    now.return_value = 110.0
    assert (clock.seconds, clock.total_seconds) == (8.0, 18.0)
    assert clock.resume() == 7.0
    now.return_value = 112.0
    clock.skip(1.5)
    assert (clock.seconds, clock.total_seconds) == (8.5, 20.0)


@pytest.mark.parametrize("paused", [True, False])
def test_a_restarted_server_gets_everything_again(paused: bool) -> None:
    server, program, evaluations = Mock(), Mock(), Mock()
    session = make_session(server=server, program=program, evaluations=evaluations)
    notice = Mock()
    notice.to_json.return_value = "notice"
    publisher = RunPublisher(session, notice, [])
    server.restarted.return_value = False
    assert not publisher.renew(paused=paused)
    assert server.publish.mock_calls == program.table.mock_calls == evaluations.mock_calls == []
    server.restarted.return_value = True
    assert publisher.renew(paused=paused)
    program.table.set_paused.assert_called_once_with(paused)
    program.learner.publish.assert_called_once_with()
    server.publish.assert_called_once_with(RUN, b"notice")
    evaluations.repeat.assert_called_once_with()
    publisher.end()
    assert server.publish.call_args.args == (RUN, b"")
    assert publisher.renew(paused=paused)
    assert server.publish.call_args.args == (RUN, b"")  # an ended run stays so
    program.learner.publish.assert_called_once_with()
