"""Actors that are started apart, looked after by a launcher that only pretends."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from headrace._native import Server
from headrace.errors import ConfigError, LaunchError
from headrace.launch import Exit, volunteers
from headrace.launch.volunteers import run_actors
from headrace.roles.base import RUN, Role
from headrace.roles.volunteer import RunNotice
from headrace.servers import Endpoint, connect_role

NOTICE = RunNotice("CartPole-v1", 60.0, "first", ("{}", "{}"))


class Pretence:
    """Gives each poll the next of `exits`, and calls `last` at the one after."""

    def __init__(self, exits: list[list[tuple[int, str, bool]]], last: Callable[[], object]) -> None:
        self._exits = exits
        self._last = last
        self.started: list[Role] = []
        self.stopped: list[str] = []

    def start(self, role: Role) -> None:
        self.started.append(role)

    def poll(self) -> list[Exit]:
        if not self._exits:
            self._last()
            return []
        ended = self._exits.pop(0)
        return [Exit(Role("volunteer", index, ""), reason, fault, "last words") for index, reason, fault in ended]

    def kill(self, role: Role) -> None:
        raise AssertionError("nobody is killed here")

    def stop(self, roles: Iterable[Role]) -> None:
        self.stopped += [role.name for role in roles]


class Apart:
    """A server with a run's notice, and what run_actors() does there."""

    def __init__(self) -> None:
        self.server = Server()
        self.endpoint = Endpoint(self.server.listen("unix:@"), "run")
        self.server.publish("run/" + RUN, NOTICE.to_json().encode())
        self.said: list[str] = []

    def end(self) -> None:
        self.server.publish("run/" + RUN, b"")

    def begin(self, start: str) -> None:
        self.server.publish("run/" + RUN, dataclasses.replace(NOTICE, start=start).to_json().encode())

    def lose_notice(self) -> None:
        self.server.drop("run/" + RUN)

    def run(
        self, *exits: list[tuple[int, str, bool]], last: Callable[[], object] | None = None, actors: int = 2
    ) -> str:
        self.launcher = Pretence(list(exits), last or self.end)
        return run_actors(self.endpoint, actors, Path("logs"), self.said.append, lambda *_: self.launcher)


def in_turn(*calls: Callable[[], object]) -> Callable[[], object]:
    """What makes the first of these calls, the next time the second, and so on."""
    left = iter(calls)

    def call() -> object:
        return next(left)()

    return call


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    monkeypatch.setattr(volunteers, "_POLL_SECONDS", 0.0)
    place = Apart()
    yield place
    place.server.close()


def test_it_ends_with_the_run(apart: Apart) -> None:
    assert apart.run([]) == "end"
    assert [role.name for role in apart.launcher.started] == ["volunteer 0", "volunteer 1"]
    assert apart.launcher.stopped == ["volunteer 0", "volunteer 1"]
    assert apart.said == ["2 actors in CartPole-v1; logs: logs", "the run has ended"]


def test_who_dies_is_started_again(apart: Apart) -> None:
    assert apart.run([(1, "exit 1", False)], []) == "end"
    assert apart.launcher.started[2:] == [Role("volunteer", 1, "", 1)]
    assert "volunteer 1 died (exit 1): last words; it is started again" in apart.said


def test_who_ends_with_the_run_has_not_died(apart: Apart) -> None:
    class Ending(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.end()
            return super().pop(0)

    apart.launcher = Pretence(Ending([[(0, "exit 0", False)]]), apart.end)
    assert run_actors(apart.endpoint, 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert not any("died" in text for text in apart.said)


def test_actors_live_no_longer_than_the_start_of_the_learner_that_they_began_with(apart: Apart) -> None:
    last = in_turn(apart.lose_notice, lambda: apart.begin("second"), lambda: None, apart.end)
    assert apart.run([], last=last) == "end"
    names = ["volunteer 0", "volunteer 1"]
    assert [role.name for role in apart.launcher.started] == 2 * names
    assert apart.launcher.stopped == 2 * names
    assert apart.said[1:] == ["the learner was started anew; so are its actors", "the run has ended"]


def test_who_ends_where_no_learner_is_known_is_started_again_once_one_is(apart: Apart) -> None:
    """Not even a fault counts: the table may have been another run's."""

    class Losing(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.lose_notice()
            return super().pop(0)

    last = in_turn(lambda: apart.begin("first"), lambda: None, apart.end)
    apart.launcher = Pretence(Losing([[(0, "exit 2", True)]]), last)
    assert run_actors(apart.endpoint, 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert [role.name for role in apart.launcher.started[2:]] == ["volunteer 0"]
    assert not any("died" in text for text in apart.said)


def test_who_ends_while_the_learner_is_started_anew_is_at_no_fault(apart: Apart) -> None:
    class Beginning(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.begin("second")
            return super().pop(0)

    apart.launcher = Pretence(Beginning([[(0, "exit 2", True)]]), apart.end)
    assert run_actors(apart.endpoint, 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert len(apart.launcher.started) == 4


def test_more_actors_than_places_are_told_that_some_wait(apart: Apart) -> None:
    assert apart.run([], actors=3) == "end"
    assert apart.said[1] == "the run has places for 2 actors; the others wait for one to be free"


def test_the_third_death_in_a_minute_is_the_end(apart: Apart) -> None:
    death = [(0, "exit 1", False)]
    with pytest.raises(LaunchError, match=r"volunteer 0 died 3 times within a minute.*exit 1: last words"):
        apart.run(death, [(1, "exit 1", False)], death, death)
    assert len(apart.launcher.started) == 5
    assert len(apart.launcher.stopped) == 2


def test_a_users_mistake_is_one_line(apart: Apart) -> None:
    with pytest.raises(ConfigError, match=r"^last words$"):
        apart.run([(0, "exit 2", True)])


def test_a_server_that_is_gone_is_one_line(apart: Apart) -> None:
    with pytest.raises(LaunchError, match=r"the server at unix:@.* is gone: .*start the actors again"):
        apart.run(last=apart.server.close)


def test_a_server_that_is_gone_is_named_without_its_password(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    native = apart.endpoint
    monkeypatch.setattr(volunteers, "connect_role", lambda endpoint: connect_role(native))
    apart.endpoint = Endpoint("redis://me:pass@h:1/2", "run")
    with pytest.raises(LaunchError, match=r"^the server at redis://me@h:1/2 is gone: "):
        apart.run(last=apart.server.close)


def test_ctrl_c_ends_the_actors(apart: Apart) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert apart.run(last=interrupt) == "interrupt"
    assert len(apart.launcher.stopped) == 2
