"""The training clock."""

from time import perf_counter

from headrace.training.clock import TrainingClock


def test_seconds_that_were_not_training_are_subtracted() -> None:
    begin = perf_counter()
    clock = TrainingClock(100.0)
    clock.skip(50.0)
    assert 50.0 <= clock.seconds <= 50.0 + perf_counter() - begin


def test_seconds_that_were_training_in_a_pause_are_added() -> None:
    clock = TrainingClock(100.0)
    clock.pause()
    paused = clock.seconds
    clock.count(3.0)
    assert clock.seconds == paused + 3.0
    assert clock.resume() < 0.0  # less than three seconds have passed
