"""Requests to stop."""

import os
import signal
import threading

import pytest

from headrace.training import interrupts
from headrace.training.interrupts import Interrupts


def ask() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_asks_and_the_second_stops() -> None:
    with Interrupts(lambda: None) as requests:
        assert not requests.requested
        ask()
        assert requests.requested
        with pytest.raises(KeyboardInterrupt):
            ask()
    assert not requests.gave_up


def test_a_run_that_does_not_see_it_gives_up_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE_SECONDS", 0.05)
    given_up = threading.Event()
    with Interrupts(given_up.set) as requests:
        ask()
        assert given_up.wait(30)
        assert requests.gave_up


def test_a_run_that_ends_gives_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE_SECONDS", 0.2)
    given_up = threading.Event()
    with Interrupts(given_up.set) as requests:
        ask()
        requests.acknowledge()
        assert not given_up.wait(0.5)
