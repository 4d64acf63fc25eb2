"""Requests to stop."""

import os
import signal
import threading
from unittest.mock import Mock

import pytest

from headrace.training import interrupts
from headrace.training.interrupts import Interrupts


def ask() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_signal_requests_a_stop_and_the_second_forces_it() -> None:
    with Interrupts(lambda: None) as requests:
        assert not requests.requested
        ask()
        assert requests.requested
        with pytest.raises(KeyboardInterrupt):
            ask()
    assert not requests.gave_up


def test_a_second_hangup_forces_nothing() -> None:
    """The shell and the kernel each send one when a terminal is closed."""
    before = signal.getsignal(signal.SIGHUP)
    with Interrupts(lambda: None) as requests:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            assert requests.requested
        with pytest.raises(KeyboardInterrupt):
            ask()
    assert signal.getsignal(signal.SIGHUP) == before


def test_a_stop_of_the_process_is_counted_when_it_continues() -> None:
    before = signal.getsignal(signal.SIGCONT)
    with Interrupts(lambda: None) as requests:
        assert requests.stops == 0
        os.kill(os.getpid(), signal.SIGCONT)
        assert requests.stops == 1
        assert not requests.requested
    assert signal.getsignal(signal.SIGCONT) == before


def test_an_unacknowledged_request_calls_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE_SECONDS", 0.05)
    given_up = threading.Event()
    with Interrupts(given_up.set) as requests:
        ask()
        assert given_up.wait(30)
        assert requests.gave_up


def test_an_acknowledged_request_does_not_call_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Mock()
    monkeypatch.setattr(interrupts.threading, "Timer", timer)
    with Interrupts(lambda: None) as requests:
        ask()
        timer.return_value.start.assert_called_once_with()
        timer.return_value.cancel.assert_not_called()
        requests.acknowledge()
        timer.return_value.cancel.assert_called_once_with()
