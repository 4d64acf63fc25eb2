"""The watch of environment calls in this process."""

import os
import signal
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from headrace.training.hang_watch import HangWatch


@pytest.fixture
def received() -> Iterator[list[int]]:
    """The program's own SIGUSR1s, such as a scheduler's warning before it ends a job."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGUSR1, before)


def test_the_program_gets_its_own_signals(received: list[int]) -> None:
    handler = signal.getsignal(signal.SIGUSR1)
    with HangWatch(60.0, Mock()):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert received == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_a_handler_that_python_did_not_install_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a program that embeds Python, for which signal() returns None."""
    before = signal.getsignal(signal.SIGUSR1)
    with HangWatch(60.0, Mock()) as watch:
        monkeypatch.setattr(watch, "_before", None)
        os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
