"""Clocks of roles, with a simulated time."""

import pytest

from headrace.roles import clock
from headrace.roles.clock import PhaseClock, StallTimer


class Time:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clock, "monotonic", time)
    return time


def test_seconds_go_to_the_phase_that_was_entered(time: Time) -> None:
    phases = PhaseClock(("work", "wait"))
    time.now += 1
    phases.enter("work")
    time.now += 5
    phases.enter("wait")
    time.now += 2
    phases.enter("work")
    assert phases.seconds == {"work": 5, "wait": 3}


def test_skipped_seconds_are_left_out(time: Time) -> None:
    phases = PhaseClock(("work", "wait"))
    phases.enter("work")
    time.now += 5
    phases.skip(4)
    phases.enter("wait")
    assert phases.seconds["work"] == 1


def test_no_more_is_skipped_than_the_phase_has_lasted(time: Time) -> None:
    phases = PhaseClock(("work", "wait"))
    time.now += 5
    phases.enter("work")
    time.now += 1
    phases.skip(4)  # of which three were in the phase before
    time.now += 2
    phases.enter("wait")
    assert phases.seconds == {"work": 2, "wait": 5}


def test_progress_resets_the_stall_timer(time: Time) -> None:
    phases = PhaseClock(("work", "wait"))
    stall = StallTimer(phases)
    time.now += 3
    assert stall.seconds() == 3
    phases.beat()
    assert stall.seconds() == 0
    time.now += 2
    assert stall.seconds() == 2
    phases.enter("work")
    assert stall.seconds() == 0
