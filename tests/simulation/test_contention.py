"""By how much busy cores slow each other."""

import pytest

from headrace import A3C
from headrace.errors import LaunchError
from headrace.simulation import contention
from headrace.simulation.companions import open_companions
from headrace.simulation.contention import measure_contention

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = A3C(hidden=(8,))


def test_a_single_core_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "available_cores", lambda: 1)
    assert measure_contention("no environment is made", SMALL, 1.0) == 0.0


def test_other_processes_make_the_same_turns_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "available_cores", lambda: 2)
    assert 0.0 <= measure_contention(CORRIDOR, SMALL, 0.02) < 1000.0


def test_a_process_that_does_not_start_is_an_error() -> None:
    with pytest.raises(LaunchError), open_companions(1, "no-such-environment", SMALL):
        pass
