"""Missing heartbeats, and a server that delivers no reports."""

from collections.abc import Iterable

import pytest

from headrace.errors import DivergenceError, LaunchError
from headrace.launch import deaths
from headrace.launch.base import Exit
from headrace.roles.base import Role, RoleContext
from headrace.roles.messages import Report
from headrace.training import supervision
from headrace.training.supervision import Supervisor


class Acting(Role):
    kind = "actor"

    def run(self, context: RoleContext) -> None:
        raise AssertionError("no role is started here")


class Record:
    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_exit(self, ended: Exit, again: bool) -> None:
        self.events.append((ended.reason, again))

    def on_place(self, role: Role, place: str) -> None:
        self.events.append((role.name, place))

    def on_wait(self, waiting: int, roles: int) -> None:
        self.events.append((waiting, roles))


class Pretence:
    def __init__(self) -> None:
        self.killed: list[str] = []
        self.waiting = False
        self.exits: list[Exit] = []

    def start(self, role: Role) -> None:
        pass

    def poll(self) -> list[Exit]:
        exits, self.exits = self.exits, []
        return exits

    def place(self, role: Role) -> str | None:
        return None if self.waiting else "node 10.0.0.2"

    def kill(self, role: Role) -> None:
        self.killed.append(role.name)

    def stop(self, roles: Iterable[Role]) -> None:
        pass


def heartbeat(index: int, phase: str = "", generation: int = 0, stalled: float = 0.0) -> Report:
    return {"role": "actor", "index": index, "generation": generation, "phase": phase, "stalled_seconds": stalled}


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (supervision, deaths):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_missing_heartbeats_are_a_hang_except_during_an_outage(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, Record())
    supervisor.start()
    supervisor.receive(heartbeat(0))
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
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, Record())
    supervisor.start()
    time.now += 3600.0
    supervisor.check()
    launcher.waiting = False
    time.now += 299.9
    supervisor.check()
    assert launcher.killed == []
    time.now += 0.2
    supervisor.check()
    assert launcher.killed == ["actor 0"]


def test_a_role_may_take_long_to_its_first_report(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0), Acting(1)], 10.0, Record())
    supervisor.start()
    time.now += 299.9
    supervisor.receive(heartbeat(1, "environment"))
    supervisor.check()
    assert launcher.killed == []
    time.now += 0.2
    supervisor.check()
    assert launcher.killed == ["actor 0"]
    time.now += 10.0
    supervisor.check()
    assert launcher.killed == ["actor 0", "actor 1"]


def test_a_limit_below_the_period_of_heartbeats_is_one_of_environment_steps_only(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0), Acting(1)], 0.5, Record())
    supervisor.start()
    supervisor.receive(heartbeat(0))
    supervisor.receive({**heartbeat(1, "environment"), "stalled_seconds": 0.6})
    time.now += 1.2
    supervisor.check()
    assert launcher.killed == ["actor 1"]
    time.now += 4.0
    supervisor.check()
    assert launcher.killed == ["actor 1", "actor 0"]


def test_skipping_never_moves_a_heartbeat_into_the_future(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, Record())
    supervisor.start()
    time.now += 20.0
    supervisor.receive(heartbeat(0))
    supervisor.skip(20.0)
    time.now += 10.1
    supervisor.check()
    assert launcher.killed == ["actor 0"]


def test_roles_without_room_are_told_once_their_number_has_settled(time: Time) -> None:
    launcher, record = Pretence(), Record()
    launcher.waiting = True
    supervisor = Supervisor(launcher, [Acting(0), Acting(1)], 100.0, record)
    supervisor.start()
    supervisor.check()
    assert record.events == []
    for _ in range(3):
        time.now += 10.1
        supervisor.check()
    assert record.events == [(2, 2)]
    launcher.waiting = False
    for _ in range(3):
        supervisor.check()
        time.now += 10.1
    assert record.events[1:] == [("actor 0", "node 10.0.0.2"), ("actor 1", "node 10.0.0.2"), (0, 2)]


def test_the_loss_of_a_node_is_not_counted_as_a_death_of_its_roles(time: Time) -> None:
    launcher, record = Pretence(), Record()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, record)
    supervisor.start()
    for generation in range(5):
        launcher.exits = [Exit(Acting(0, generation=generation), "its node was lost", False, "", node_lost=True)]
        supervisor.check()
    assert [again for reason, again in record.events if reason == "its node was lost"] == [True] * 5


def test_deaths_whose_cause_is_gone_do_not_count(time: Time) -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, Record())
    supervisor.start()

    def die(generation: int) -> None:
        launcher.exits = [Exit(Acting(0, generation=generation), "exit code 1", None, "there is no table")]
        supervisor.check()

    for generation in range(4):
        if generation % 2 == 0:
            supervisor.forget_deaths()
        die(generation)
    with pytest.raises(LaunchError, match="actor 0 died 3 times"):
        die(4)


def test_starts_that_fail_slowly_are_not_repeated_for_ever(time: Time) -> None:
    launcher, record = Pretence(), Record()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, record)
    supervisor.start()

    def die(generation: int) -> None:
        time.now += 62.0  # in which it looked for its server
        launcher.exits = [Exit(Acting(0, generation=generation), "exit code 1", False, "no server answers")]
        supervisor.check()

    die(0)
    supervisor.receive(heartbeat(0, generation=1))  # of one that has begun, deaths this far apart do not count
    die(1)
    die(2)
    with pytest.raises(LaunchError, match="actor 0 died 3 times"):
        die(3)
    assert [again for _, again in record.events if isinstance(again, bool)] == [True, True, True, False]


def test_a_role_that_a_restart_would_not_help_ends_the_run_with_its_error() -> None:
    launcher = Pretence()
    supervisor = Supervisor(launcher, [Acting(0)], 10.0, Record())
    launcher.exits = [Exit(Acting(0), "exit 83", DivergenceError, "the loss is nan")]
    with pytest.raises(DivergenceError, match=r"^the loss is nan$"):
        supervisor.check()


def test_the_time_of_a_hang_does_not_count_between_two_deaths(time: Time) -> None:
    """An environment that hangs at each start would otherwise be started for ever: its deaths are 62 s apart."""
    supervisor = Supervisor(Pretence(), [Acting(0)], 60.0, Record())
    supervisor.start()
    for generation in range(3):
        time.now += 62.0
        supervisor.receive(heartbeat(0, "environment", generation, stalled=61.0))
        if generation == 2:
            with pytest.raises(LaunchError, match="actor 0 died 3 times within a minute"):
                supervisor.check()
        else:
            supervisor.check()
