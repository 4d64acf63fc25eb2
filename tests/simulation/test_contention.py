"""By how much busy cores slow each other."""

import contextlib
from pathlib import Path

import pytest

from headrace import A3C
from headrace.errors import LaunchError
from headrace.simulation import contention
from headrace.simulation.companions import Companions, open_companions
from headrace.simulation.contention import Contention, measure_contention

from ..waiting import wait_for

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = A3C(hidden=(8,))


class Recorded:
    """Stands for companions: the number that goes on."""

    running = -1

    def resume(self, count: int) -> None:
        self.running = count


@pytest.mark.parametrize(
    ("cores", "seconds", "found"),
    [
        (4, {0: 1.0, 3: 1.25, 7: 1.5}, Contention(0.25, pytest.approx(0.2))),
        (4, {0: 1.0, 3: 0.75, 7: 0.5}, Contention(0.0, 0.0)),  # noise
        (1, {0: 1.0, 1: 1.5}, Contention(0.0, 0.5)),
    ],
)
def test_the_same_turns_are_made_under_each_condition(
    monkeypatch: pytest.MonkeyPatch, cores: int, seconds: dict[int, float], found: Contention
) -> None:
    """`seconds`: of a turn, by the number of other processes."""
    companions, made = Recorded(), []

    def turns_made(_: object, turns: int) -> float:
        made.append(companions.running)
        return turns * seconds[companions.running]

    monkeypatch.setattr(contention, "available_cores", lambda: cores)
    monkeypatch.setattr(contention, "open_companions", lambda *_: contextlib.nullcontext(companions))
    monkeypatch.setattr(contention, "open_lone_worker", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(contention, "_count_turns", lambda *_: 7)
    monkeypatch.setattr(contention, "_make_turns", turns_made)
    assert measure_contention(CORRIDOR, SMALL, 40.0) == found
    assert made == made[:3] * (len(made) // 3)


def test_real_turns_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "available_cores", lambda: 2)
    found = measure_contention(CORRIDOR, SMALL, 0.02)
    assert all(0.0 <= each < 1000.0 for each in found)


def test_companions_stop_and_go_on() -> None:
    def are_stopped(companions: Companions) -> list[bool]:
        states = [Path(f"/proc/{each.pid}/stat").read_text().rpartition(") ")[2][0] for each in companions.processes]
        return [state == "T" for state in states]

    with open_companions(2, CORRIDOR, SMALL) as companions:
        for count, expected in ((1, [False, True]), (0, [True, True]), (2, [False, False])):
            companions.resume(count)
            wait_for(lambda want=expected: are_stopped(companions) == want)
        companions.processes[1].kill()
        companions.processes[1].wait()
        with pytest.raises(LaunchError, match="has ended"):
            companions.resume(1)


def test_companions_end_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with open_companions(2, CORRIDOR, SMALL) as companions:
        companions.resume(1)
    assert [each.returncode for each in companions.processes] == [0, 0]
    assert capfd.readouterr() == ("", "")


def test_a_process_that_does_not_start_is_an_error() -> None:
    with pytest.raises(LaunchError), open_companions(1, "no-such-environment", SMALL):
        pass
