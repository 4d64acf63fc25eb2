"""Calls whose result no thread waits for."""

import threading

import pytest

from headrace.studies.in_network.background_calls import BackgroundCalls


def test_calls_are_made_in_order() -> None:
    done: list[int] = []
    calls = BackgroundCalls("test")
    for number in range(100):
        calls.send(done.append, number)
    calls.send(done.append, 100)
    while len(done) < 101:
        threading.Event().wait(0.001)
    calls.close()
    assert done == list(range(101))


def test_finish_waits_for_all_and_raises_what_failed() -> None:
    done: list[int] = []
    calls = BackgroundCalls("test")
    calls.send(threading.Event().wait, 0.1)
    calls.send(done.append, 1)
    calls.finish()
    assert done == [1]
    calls.send(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        calls.finish()
    calls.finish()
    calls.close()


def test_an_error_is_raised_by_a_later_call() -> None:
    calls = BackgroundCalls("test")
    calls.send(int, "x")

    def more() -> None:
        for _ in range(20):
            calls.send(int, "1")

    with pytest.raises(ValueError, match="invalid literal"):
        more()
    calls.close()


def test_a_caller_too_far_ahead_waits() -> None:
    go = threading.Event()
    calls = BackgroundCalls("test")
    sent = []

    def send() -> None:
        for number in range(12):
            calls.send(go.wait)
            sent.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.3)
    assert len(sent) == 8
    go.set()
    thread.join(10)
    assert len(sent) == 12
    calls.close()
