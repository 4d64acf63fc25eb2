"""Missing heartbeats, and a server that delivers no reports."""

from collections.abc import Iterable

import pytest

from headrace.launch import Exit
from headrace.roles.base import Role, RoleContext
from headrace.training import supervision
from headrace.training.supervision import Supervisor


class Acting(Role):
    kind = "actor"

    def run(self, context: RoleContext) -> None:
        raise AssertionError("no role is started here")


class Pretence:
    def __init__(self) -> None:
        self.killed: list[str] = []
        self.waiting = False

    def start(self, role: Role) -> None:
        pass

    def poll(self) -> list[Exit]:
        return []

    def pending(self, role: Role) -> bool:
        return self.waiting

    def kill(self, role: Role) -> None:
        self.killed.append(role.name)

    def stop(self, roles: Iterable[Role]) -> None:
        pass


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(supervision.time, "monotonic", lambda: self.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_missing_heartbeats_are_a_hang_except_during_an_outage(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, lambda ended, again: None)
    supervisor.start()
    time.now += 35.0
    supervisor.skip(30.0)
    supervisor.check()
    assert launcher.killed == []
    time.now += 5.1
    supervisor.check()
    assert launcher.killed == ["actor 0"]


def test_a_role_that_waits_for_a_machine_is_not_expected_to_send_heartbeats(time: Time) -> None:
    launcher = Pretence()
    launcher.waiting = True
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, lambda ended, again: None)
    supervisor.start()
    time.now += 3600.0
    supervisor.check()
    launcher.waiting = False
    time.now += 9.9
    supervisor.check()
    assert launcher.killed == []
    time.now += 0.2
    supervisor.check()
    assert launcher.killed == ["actor 0"]


def test_skipping_never_moves_a_heartbeat_into_the_future(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, lambda ended, again: None)
    supervisor.start()
    time.now += 20.0
    supervisor.receive({"role": "actor", "index": 0})
    supervisor.skip(20.0)
    time.now += 10.1
    supervisor.check()
    assert launcher.killed == ["actor 0"]
