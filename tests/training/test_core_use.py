"""Busy cores while training."""

import pytest

from headrace.training import core_use
from headrace.training.core_use import CoreUse


class Machine:
    """A clock and processes that the test drives."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used: dict[str, float] = {}

    def monotonic(self) -> float:
        return self.now

    def used_core_seconds(self) -> dict[str, float]:
        return dict(self.used)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(core_use, "monotonic", machine.monotonic)
    monkeypatch.setattr(core_use, "used_core_seconds", machine.used_core_seconds)
    return machine


def test_pauses_do_not_count(machine: Machine) -> None:
    use = CoreUse()
    machine.now, machine.used = 2.0, {"worker": 3.0}
    use.look(paused=False)
    machine.now, machine.used = 4.0, {"worker": 7.0}  # paused some time in between: left out
    use.look(paused=True)
    machine.now, machine.used = 9.0, {"worker": 7.0, "evaluator": 5.0}  # resumed some time in between
    use.look(paused=False)
    assert use.take_recent() == {"worker": 1.5}
    machine.now, machine.used = 11.0, {"worker": 8.0, "evaluator": 5.0, "training": 0.5}
    use.look(paused=False)
    assert use.take_recent() == {"worker": 0.5, "evaluator": 0.0, "training": 0.25}
    assert use.mean() == {"worker": 1.0, "evaluator": 0.0, "training": 0.125}


def test_without_a_simulated_run_there_are_none() -> None:
    use = CoreUse()
    use.look(paused=False)
    assert use.take_recent() == use.mean() == {}
