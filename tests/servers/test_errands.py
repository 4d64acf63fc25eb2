"""Calls whose result no thread waits for."""

import threading

import pytest

from headrace.servers.errands import Errands


def test_calls_are_made_in_order() -> None:
    done: list[int] = []
    errands = Errands("test")
    for number in range(100):
        errands.send(done.append, number)
    errands.send(done.append, 100)
    while len(done) < 101:
        threading.Event().wait(0.001)
    errands.close()
    assert done == list(range(101))


def test_finish_waits_for_all_and_raises_what_failed() -> None:
    done: list[int] = []
    errands = Errands("test")
    errands.send(threading.Event().wait, 0.1)
    errands.send(done.append, 1)
    errands.finish()
    assert done == [1]
    errands.send(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        errands.finish()
    errands.finish()
    errands.close()


def test_an_error_is_raised_by_a_later_call() -> None:
    errands = Errands("test")
    errands.send(int, "x")

    def more() -> None:
        for _ in range(20):
            errands.send(int, "1")

    with pytest.raises(ValueError, match="invalid literal"):
        more()
    errands.close()


def test_who_is_too_far_ahead_waits() -> None:
    go = threading.Event()
    errands = Errands("test")
    sent = []

    def send() -> None:
        for number in range(12):
            errands.send(go.wait)
            sent.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.3)
    assert len(sent) == 8
    go.set()
    thread.join(10)
    assert len(sent) == 12
    errands.close()
