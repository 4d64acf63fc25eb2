"""Faults: how they are written, and what they do."""

import itertools
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headrace.clock import monotonic, sleep, spend
from headrace.errors import ConfigError
from headrace.launch.simulated.faults import Fault, check_roles, plan_faults, random_faults, read_faults

from .conftest import MakeWorld


def test_a_file_lists_faults_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"at": 5, "kind": "server", "keeps_data": False}, {"at": 1, "kind": "kill"}]))
    assert read_faults(str(path), 0) == (Fault(1, "kill"), Fault(5, "server", keeps_data=False))
    assert read_faults("none", 0) == ()


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ([{"at": -1, "kind": "kill"}], r"entry 1 of .*faults.json: at"),
        ([{"at": 1, "kind": "burn"}], "kind"),
        ([{"at": 1, "kind": "kill", "seconds": 5}], r"seconds is 5; it must be left out: kill has only at, kind, role"),
        ([{"at": 1, "kind": "server", "role": "*"}], r"role is \*; it must be left out"),
        ([{"at": 1, "kind": "cut", "keeps_data": True}], r"keeps_data is True; it must be left out"),
        ([5], "entry 1"),
        ({}, "list"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, record: object, named: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=named):
        read_faults(str(path), 0)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_bytes(b"\xff[")
    with pytest.raises(ConfigError, match=r"^faults is .*faults\.json; it must be a JSON file"):
        read_faults(str(tmp_path / "faults.json"), 0)


def test_every_kind_takes_its_own_fields(tmp_path: Path) -> None:
    of_roles = [{"at": 1, "kind": kind, "role": "*", "seconds": 2} for kind in ("slow", "pause", "delay", "cut")]
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([*of_roles, {"at": 2, "kind": "server", "seconds": 2, "keeps_data": True}]))
    assert [fault.seconds for fault in read_faults(str(path), 0)] == [2] * 5


@pytest.mark.parametrize(
    "text", ["", "random:", "random:0", "random:often", "random:101", "random:nan", "missing.json"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="faults"):
        read_faults(text, 0)


def test_a_fault_of_an_unknown_role_is_refused() -> None:
    names = ["evaluator 0", "worker 0", "worker 1"]
    check_roles([Fault(1, "kill"), Fault(2, "kill", "worker 1"), Fault(3, "server")], names)
    for role in ("wroker 1", "worker 2", "actor 0", ""):
        with pytest.raises(ConfigError) as raised:
            check_roles([Fault(1, "kill", role)], names)
        for said in ("role", role, "evaluator 0", "worker 0 to worker 1"):
            assert said in str(raised.value)


def test_random_faults_come_at_their_rate_and_by_the_seed() -> None:
    faults = read_faults("random:0.5", 3)
    assert len(faults) == pytest.approx(1_800, rel=0.1)  # in an hour
    assert {fault.kind for fault in faults} == {"kill", "slow", "pause", "delay", "cut", "server"}
    assert faults == random_faults(0.5, 3) != random_faults(0.5, 4)


@pytest.mark.parametrize("rate", [0.5, 100.0])
def test_random_faults_leave_roles_and_server_time_to_recover(rate: float) -> None:
    faults = random_faults(rate, 0)
    kills = [fault.at for fault in faults if fault.kind == "kill"]
    assert len(kills) > 50
    assert all(third - first > 70 for first, third in zip(kills, kills[2:], strict=False))
    stops = [fault for fault in faults if fault.kind == "server"]
    assert all(first.at + first.seconds < second.at for first, second in itertools.pairwise(stops))


def test_faults_happen_at_their_time_and_pass(make_world: MakeWorld) -> None:
    world, killed, server = make_world(8), [], Mock()
    process = world.process("actor 0")
    ends: list[float] = []

    def act() -> None:
        while True:
            spend("second")
            ends.append(monotonic())

    world.start(process, act, "main")
    faults = (
        Fault(0.5, "pause", "actor 0", 2.0),  # until 2.5, when half of the first second is left
        Fault(3.5, "slow", "actor 0", 2.5),  # until 6, when a quarter of the second that began at 3 is left
        Fault(14.0, "server", seconds=2.0),
        Fault(15.0, "kill", "worker 9"),  # which does not run
        Fault(17.0, "kill"),
    )
    world.start(world.process("faults"), lambda: plan_faults(world, faults, killed.append, server), "faults")
    sleep(17.5)
    assert ends == pytest.approx([3.0, *(6.25 + number for number in range(12))])
    server.stop.assert_called_once_with()
    server.start.assert_called_once_with(keeps=True)
    assert killed == ["actor 0"]


@pytest.mark.parametrize("kind", ["slow", "delay", "pause", "cut"])
@pytest.mark.parametrize("seconds", [(4.0, 1.0), (2.0, 3.0)])  # one within the other; one begins in the other
def test_faults_of_a_kind_that_overlap_last_until_the_last_has_ended(
    make_world: MakeWorld, kind: Any, seconds: tuple[float, float]
) -> None:
    world = make_world(8)
    process = world.process("actor 0")
    world.start(process, lambda: sleep(9.0), "main")
    faults = [Fault(at, kind, "actor 0", lasts) for at, lasts in zip((0.0, 1.0), seconds, strict=True)]
    world.start(world.process("faults"), lambda: plan_faults(world, tuple(faults), Mock(), Mock()), "faults")

    def suffers() -> bool:
        held = max(process.paused_until, process.cut_until) > monotonic()
        return held or process.slowdown > 1 or process.delay_seconds > 0

    suffered = []
    for _ in range(5):
        sleep(0.9)
        suffered.append(suffers())
    assert suffered == [True, True, True, True, False]


@pytest.mark.parametrize("seconds", [(4.0, 1.0), (2.0, 3.0)])  # one within the other; one begins in the other
@pytest.mark.parametrize("keeps", [(True, True), (False, True), (True, False)])
def test_the_server_is_away_until_the_last_fault_has_ended(
    make_world: MakeWorld, seconds: tuple[float, float], keeps: tuple[bool, bool]
) -> None:
    world, calls = make_world(8), []
    server = Mock()
    server.stop.side_effect = lambda: calls.append(("stop", monotonic()))
    server.start.side_effect = lambda keeps: calls.append((keeps, monotonic()))
    faults = [
        Fault(at, "server", seconds=lasts, keeps_data=keeps_data)
        for at, lasts, keeps_data in zip((0.0, 1.0), seconds, keeps, strict=True)
    ]
    faults.append(Fault(6.0, "server"))  # which keeps its data: those before have ended
    world.start(world.process("faults"), lambda: plan_faults(world, tuple(faults), Mock(), server), "faults")
    sleep(9.0)
    assert calls == [("stop", 0.0), ("stop", 1.0), (all(keeps), 4.0), ("stop", 6.0), (True, 7.0)]
