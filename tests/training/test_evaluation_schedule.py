"""When the policy is evaluated, and the moment that an evaluation records."""

from typing import Any
from unittest.mock import Mock

import pytest

from headrace.training.evaluation import Evaluation, Moment
from headrace.training.evaluation_schedule import EvaluationSchedule

ASKED, ANSWERED = Moment(100, 20, 3.0), Moment(130, 21, 3.0)


@pytest.mark.parametrize(
    ("paused", "figures", "moment"),
    [(True, {}, ANSWERED), (True, None, None), (False, {}, None)],
    ids=["workers held", "actors held", "workers that continue"],
)
def test_the_last_steps_of_paused_workers_belong_to_the_evaluation(
    paused: bool, figures: dict[str, Any] | None, moment: Moment | None
) -> None:
    """They report them while the evaluator plays."""
    program, evaluations, clock = Mock(), Mock(), Mock(paused=False, seconds=3.0)
    program.figures.return_value = figures
    evaluations.answer.return_value = Evaluation([1.0], [5], ASKED)
    evaluations.promising.return_value = False
    moments = iter([ASKED, ANSWERED])
    schedule = EvaluationSchedule(
        Mock(), program, evaluations, Mock(), clock, Mock(), Mock(),
        holds=paused, policy=lambda: b"", moment=lambda: next(moments),
    )  # fmt: skip
    schedule.evaluate(2, hold=paused)
    clock.paused = paused
    schedule.receive({"request": 1})
    evaluations.request.assert_called_once_with(b"", ASKED, 2)
    evaluations.answer.assert_called_once_with({"request": 1}, moment)
