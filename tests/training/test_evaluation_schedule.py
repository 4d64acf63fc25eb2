"""When the policy is evaluated, and the moment that an evaluation records."""

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from headrace.training.evaluation import Evaluation, Moment
from headrace.training.evaluation_schedule import EvaluationSchedule
from headrace.training.session import Session

from .conftest import make_session

ASKED, ANSWERED = Moment(100, 20, 3.0), Moment(130, 21, 3.0)


def session_at(moment: Callable[[], Moment], monkeypatch: pytest.MonkeyPatch, **parts: Any) -> Session:
    """A session whose moment is what a function returns, and whose policy is empty."""
    monkeypatch.setattr(Session, "moment", property(lambda _: moment()))
    monkeypatch.setattr(Session, "policy", lambda _: b"")
    return make_session(**parts)


@pytest.mark.parametrize(
    ("paused", "workers", "moment"),
    [(True, True, ANSWERED), (True, False, None), (False, True, None)],
    ids=["workers held", "actors held", "workers that continue"],
)
def test_the_last_steps_of_paused_workers_belong_to_the_evaluation(
    paused: bool, workers: bool, moment: Moment | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They report them while the evaluator plays."""
    program, evaluations = Mock(deterministic=False), Mock(holding=paused)
    clock = Mock(paused=False, seconds=3.0)
    config = Mock(topology=Mock(has_workers=workers))
    evaluations.complete.return_value = Evaluation([1.0], [5], ASKED)
    evaluations.promising.return_value = False
    moments = iter([ASKED, ANSWERED])
    session = session_at(
        lambda: next(moments), monkeypatch, config=config, program=program, evaluations=evaluations, clock=clock
    )
    schedule = EvaluationSchedule(session, holds=paused)
    schedule.evaluate(2, hold=paused)
    clock.paused = True  # also where the run ends meanwhile
    schedule.receive({"request": 1})
    evaluations.request.assert_called_once_with(b"", ASKED, 2, hold=paused)
    evaluations.complete.assert_called_once_with({"request": 1}, moment)


@pytest.mark.parametrize(("episodes", "target", "held"), [(10, 195.0, False), (100, 195.0, True), (100, None, False)])
def test_an_evaluation_that_can_end_the_run_pauses_training(
    episodes: int, target: float | None, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the evaluated policy is the one kept."""
    config = Mock(evaluation_episodes=episodes, until_score=target, evaluation_period_seconds=1.0)
    evaluations, program = Mock(pending=False), Mock(deterministic=False)
    session = session_at(
        lambda: ASKED,
        monkeypatch,
        config=config,
        program=program,
        evaluations=evaluations,
        monitor=Mock(near_greedy_return=None),
        clock=Mock(paused=False, seconds=9.0),
    )
    schedule = EvaluationSchedule(session, holds=False)
    schedule.evaluate_when_due()
    evaluations.request.assert_called_once_with(b"", ASKED, episodes, hold=held)


@pytest.mark.parametrize("holds", [True, False])
def test_workers_are_evaluated_by_steps_that_their_reports_do_not_show_yet(
    holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless training goes on during evaluations, when a confirmation that holds it says nothing of the next period.

    Due every 100: reported late, at 160; held at 180 after 2 s, so 90 a second, and due at 280 after 3.1 s.
    """
    config = Mock(evaluation_period_seconds=0.0, evaluation_period_steps=100, evaluation_episodes=10, until_score=None)
    program, evaluations, clock = Mock(deterministic=False), Mock(pending=False), Mock(paused=False, seconds=1.0)
    evaluations.complete.return_value = Evaluation([1.0], [5], ASKED)
    evaluations.promising.return_value = False
    steps = 60
    session = session_at(
        lambda: Moment(steps, 1, clock.seconds),
        monkeypatch,
        config=config,
        program=program,
        evaluations=evaluations,
        monitor=Mock(near_greedy_return=5.0),
        clock=clock,
    )
    schedule = EvaluationSchedule(session, holds=holds)
    schedule.evaluate_when_due()
    assert schedule.seconds_left == math.inf
    assert not evaluations.request.called
    steps, clock.seconds = 160, 2.0
    schedule.evaluate_when_due()
    assert evaluations.request.call_count == 1
    steps = 180
    schedule.receive({})
    if not holds:
        assert (schedule.seconds_left, schedule.next_evaluation) == (math.inf, 260)
        return
    assert schedule.seconds_left == pytest.approx(100 / 90)
    steps, clock.seconds = 200, 3.1  # as reported
    schedule.evaluate_when_due()
    assert evaluations.request.call_count == 1
    clock.seconds = 3.12
    schedule.evaluate_when_due()
    assert evaluations.request.call_count == 2
    steps = 281
    schedule.receive({})
    assert schedule.seconds_left == pytest.approx(100 / (101 / 1.12))


def test_an_evaluation_is_made_early_where_the_actors_reach_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Mock(evaluation_episodes=10, until_score=195.0, evaluation_period_seconds=1e6)
    evaluations, clock = Mock(pending=False), Mock(paused=False, seconds=5.0)
    monitor = Mock(near_greedy_return=190.0)
    session = session_at(
        lambda: ASKED,
        monkeypatch,
        config=config,
        program=Mock(deterministic=False),
        evaluations=evaluations,
        monitor=monitor,
        clock=clock,
    )
    schedule = EvaluationSchedule(session, holds=False)
    made = []
    for seen, seconds in ((None, 5.0), (190.0, 5.0), (195.0, 5.0), (200.0, 7.9), (200.0, 8.1)):
        monitor.near_greedy_return, clock.seconds = seen, seconds
        schedule.evaluate_when_due()
        made.append(evaluations.request.call_count)
    assert made == [0, 0, 1, 1, 2]  # three seconds apart at least
    assert monitor.clear_near_greedy.call_count == 2  # what was seen before says nothing of a later policy


@pytest.mark.parametrize(("pending", "solved"), [(False, None), (True, None), (False, ASKED)])
def test_a_pause_is_excluded_from_the_times_of_all_roles(pending: bool, solved: Moment | None) -> None:
    clock, program, monitor = Mock(paused=True), Mock(), Mock()
    clock.resume.return_value = 7.0
    evaluations = Mock(pending=pending, solved_at=solved)
    topology = Mock(has_workers=False)
    session = make_session(clock=clock, evaluations=evaluations, program=program, monitor=monitor, topology=topology)
    EvaluationSchedule(session, holds=False, next_evaluation=1.0).resume_training()
    if pending or solved:
        clock.resume.assert_not_called()
        return
    program.table.set_paused.assert_called_once_with(False)
    program.skip.assert_called_once_with(7.0)
    monitor.skip.assert_called_once_with(7.0)


@pytest.mark.parametrize(("period_seconds", "updates", "asked"), [(2.0, 20, False), (2.0, 19, True), (0.0, 20, True)])
def test_an_evaluation_by_time_is_not_repeated_for_the_same_policy(
    period_seconds: float, updates: int, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a resumed run, whose last start has evaluated it."""
    last = Evaluation([1.0], [5], Moment(90, updates, 2.5))
    config = Mock(
        evaluation_episodes=2, until_score=None, evaluation_period_seconds=period_seconds, evaluation_period_steps=50
    )
    evaluations, program = Mock(pending=False, last=last), Mock(deterministic=False)
    session = session_at(
        lambda: ASKED,
        monkeypatch,
        config=config,
        program=program,
        evaluations=evaluations,
        clock=Mock(paused=False, seconds=3.0),
    )
    schedule = EvaluationSchedule(session, holds=False, next_evaluation=1.0)
    schedule.evaluate_when_due()
    assert evaluations.request.called == asked
    assert schedule.next_evaluation > 3.0
