"""Separately started actors and workers, with a fake launcher."""

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from headrace._native import Client, Server
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.writers import table_signature
from headrace.errors import ConfigError, EnvironmentFault, LaunchError, StorageError
from headrace.launch import deaths, separate_roles
from headrace.launch.base import Exit
from headrace.launch.relay import Relay
from headrace.launch.separate_roles import run_separate
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters.snapshot import Stamp
from headrace.roles.acting_role import ActingRole
from headrace.roles.actor import ActorSettings
from headrace.roles.base import GATE, RUN, Role
from headrace.roles.gate import Gate
from headrace.roles.handles import POLICY, REPLAY, PolicyHandle
from headrace.roles.messages import REPORTS
from headrace.roles.remote_actor import ActorRole
from headrace.roles.remote_worker import WorkerRole, WorkerSettings
from headrace.roles.separate_role import RunNotice, SeparateRole, slot_name
from headrace.servers import Endpoint, RoleServer, connect_role
from headrace.types import ActingKind, EnvironmentSpec

from ..waiting import wait_for

CARTPOLE = "CartPole-v1"
SETTINGS = ActorSettings(CARTPOLE, 3, 0, (0.1,), DQN(), 50, EnvironmentSpec((4,), "float32", 2), values=True)


def notice_of(*roles: ActingRole, environment: str = CARTPOLE) -> RunNotice:
    """A notice with these roles, which are all actors or all workers."""
    policy = roles[0].policy if isinstance(roles[0], ActorRole) else None
    kind: ActingKind = "worker" if policy is None else "actor"
    return RunNotice(environment, 60.0, "first", kind, len(roles), policy)


def publish_run(server: Server, roles: Sequence[ActingRole], environment: str) -> None:
    for number, role in enumerate(roles):
        server.publish(f"run/{slot_name(number)}", json.dumps(role.to_record()).encode())
    server.publish("run/" + RUN, notice_of(*roles, environment=environment).to_json().encode())


NOTICE = notice_of(*(ActorRole(index, SETTINGS, POLICY, REPLAY) for index in range(2)))
WORKERS = notice_of(*(WorkerRole(index, WorkerSettings(SETTINGS, 2, (), None, 3)) for index in range(2)))


class Pretence:
    """Gives each poll the next of `exits`, and calls `last` at the one after."""

    def __init__(self, exits: list[list[tuple[int, str, bool]]], last: Callable[[], object]) -> None:
        self._exits = exits
        self._last = last
        self.started: list[SeparateRole] = []
        self.stopped: list[str] = []

    def start(self, role: Role) -> None:
        assert isinstance(role, SeparateRole)
        self.started.append(role)

    def poll(self) -> list[Exit]:
        if not self._exits:
            self._last()
            return []
        ended = self._exits.pop(0)
        return [Exit(SeparateRole(index, "actor"), reason, fault, "last words") for index, reason, fault in ended]

    def kill(self, role: Role) -> None:
        raise AssertionError("no role is killed here")

    def stop(self, roles: Iterable[Role]) -> None:
        self.stopped += [role.name for role in roles]


class Apart:
    """A server with a run's notice, and what run_separate() does there."""

    def __init__(self) -> None:
        self.server = Server()
        self.endpoint = Endpoint(self.server.listen("unix:@"), "run")
        self.said: list[str] = []
        self.publish(NOTICE)

    def publish(self, notice: RunNotice) -> None:
        self.server.publish("run/" + RUN, notice.to_json().encode())

    def end(self) -> None:
        self.server.publish("run/" + RUN, b"")

    def begin(self, start: str) -> None:
        self.publish(dataclasses.replace(NOTICE, start=start))

    def lose_notice(self) -> None:
        self.server.drop("run/" + RUN)

    def run(
        self,
        *exits: list[tuple[int, str, bool]],
        last: Callable[[], object] | None = None,
        actors: int = 2,
        kind: ActingKind = "actor",
    ) -> str:
        self.launcher = Pretence(list(exits), last or self.end)
        return run_separate(self.endpoint, kind, actors, Path("logs"), self.said.append, lambda *_: self.launcher)


def in_turn(*calls: Callable[[], object]) -> Callable[[], object]:
    """Returns a function that makes the next of these calls each time it is called."""
    left = iter(calls)

    def call() -> object:
        return next(left)()

    return call


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    monkeypatch.setattr(separate_roles, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(separate_roles, "_PATIENCE_SECONDS", 60.0)
    place = Apart()
    yield place
    place.server.close()


@pytest.fixture
def relays(monkeypatch: pytest.MonkeyPatch) -> list[Relay]:
    """The relays that were created, in order."""
    made: list[Relay] = []

    def make(server: RoleServer, policy: PolicyHandle) -> Relay:
        made.append(Relay(server, policy))
        return made[-1]

    monkeypatch.setattr(separate_roles, "Relay", make)
    return made


def relay_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "relay"]


def test_a_server_that_does_not_answer_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    heard = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        heard.set()

    def connect(endpoint: Endpoint) -> RoleServer:
        assert heard.wait(60)
        raise StorageError("no server answers")

    monkeypatch.setattr(separate_roles, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(separate_roles, "connect_role", connect)
    endpoint = Endpoint("tcp://127.0.0.1:9", "run", reconnect_seconds=45.0)
    with pytest.raises(StorageError):
        run_separate(endpoint, "actor", 1, Path("logs"), say)
    [text] = said
    assert "tcp://127.0.0.1:9" in text
    assert "45 s" in text


def test_it_ends_with_the_run(apart: Apart) -> None:
    assert apart.run([]) == "end"
    assert [role.name for role in apart.launcher.started] == ["separate-actor 0", "separate-actor 1"]
    assert apart.launcher.stopped == ["separate-actor 0", "separate-actor 1"]
    assert apart.said == ["2 actors in CartPole-v1; logs: logs", "the run has ended"]


def test_an_actor_that_dies_is_restarted(apart: Apart) -> None:
    assert apart.run([(1, "exit 1", None)], []) == "end"
    assert apart.launcher.started[2:] == [SeparateRole(1, "actor", generation=1)]
    assert "separate-actor 1 died (exit 1): last words; restarting it" in apart.said


def test_an_actor_that_ends_with_the_run_does_not_count_as_dead(apart: Apart) -> None:
    class Ending(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.end()
            return super().pop(0)

    apart.launcher = Pretence(Ending([[(0, "exit 0", None)]]), apart.end)
    assert run_separate(apart.endpoint, "actor", 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert not any("died" in text for text in apart.said)


def test_actors_end_when_their_learner_restarts(apart: Apart) -> None:
    last = in_turn(apart.lose_notice, lambda: apart.begin("second"), lambda: None, apart.end)
    assert apart.run([], last=last) == "end"
    names = ["separate-actor 0", "separate-actor 1"]
    assert [role.name for role in apart.launcher.started] == 2 * names
    assert apart.launcher.stopped == 2 * names
    assert apart.said[1:] == ["the learner was restarted; restarting its actors", "the run has ended"]


def test_an_actor_that_ends_without_a_notice_is_restarted_once_there_is_one(apart: Apart) -> None:
    """Not even a fault counts: the table may have been another run's."""

    class Losing(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.lose_notice()
            return super().pop(0)

    last = in_turn(lambda: apart.begin("first"), lambda: None, apart.end)
    apart.launcher = Pretence(Losing([[(0, "exit 82", EnvironmentFault)]]), last)
    assert run_separate(apart.endpoint, "actor", 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert [role.name for role in apart.launcher.started[2:]] == ["separate-actor 0"]
    assert not any("died" in text for text in apart.said)


def test_an_actor_that_ends_during_a_learner_restart_does_not_count_as_dead(apart: Apart) -> None:
    class Beginning(list[list[tuple[int, str, bool]]]):
        def pop(self, index: object = 0) -> list[tuple[int, str, bool]]:  # type: ignore[override]
            apart.begin("second")
            return super().pop(0)

    apart.launcher = Pretence(Beginning([[(0, "exit 82", EnvironmentFault)]]), apart.end)
    assert run_separate(apart.endpoint, "actor", 2, Path("logs"), apart.said.append, lambda *_: apart.launcher) == "end"
    assert len(apart.launcher.started) == 4


def test_workers_are_supervised_without_a_relay(apart: Apart, relays: list[Relay]) -> None:
    apart.publish(WORKERS)
    assert apart.run([], kind="worker", actors=3) == "end"
    assert [role.name for role in apart.launcher.started] == [f"separate-worker {index}" for index in range(3)]
    assert apart.said == [
        "3 workers in CartPole-v1; logs: logs",
        "the run has slots for 2 workers; the others wait for a free one",
        "the run has ended",
    ]
    assert relays == []


@pytest.mark.parametrize(
    ("notice", "kind", "said"),
    [
        (WORKERS, "actor", r"^run run has workers, not actors: headrace worker starts them$"),
        (NOTICE, "worker", r"^run run has actors, not workers: headrace actor starts them$"),
        (
            dataclasses.replace(WORKERS, slots=0),
            "worker",
            r"^the run's learner starts its own workers; headrace learner",
        ),
        (dataclasses.replace(NOTICE, slots=0), "actor", r"^the run's learner starts its own actors; headrace learner"),
    ],
)
def test_a_run_without_slots_of_the_kind_is_refused(
    apart: Apart, notice: RunNotice, kind: ActingKind, said: str
) -> None:
    apart.publish(notice)
    with pytest.raises(ConfigError, match=said):
        apart.run(kind=kind)
    assert apart.launcher.started == []


def test_surplus_actors_are_reported_as_waiting(apart: Apart) -> None:
    assert apart.run([], actors=3) == "end"
    assert apart.said[1] == "the run has slots for 2 actors; the others wait for a free one"


def test_the_third_death_in_a_minute_ends_the_run(apart: Apart) -> None:
    death = [(0, "exit 1", None)]
    with pytest.raises(LaunchError, match=r"separate-actor 0 died 3 times within a minute.*exit 1: last words"):
        apart.run(death, [(1, "exit 1", None)], death, death)
    assert len(apart.launcher.started) == 5
    assert len(apart.launcher.stopped) == 2


def test_a_users_mistake_is_one_line(apart: Apart) -> None:
    with pytest.raises(EnvironmentFault, match=r"^last words$"):
        apart.run([(0, "exit 82", EnvironmentFault)])


def test_a_server_that_is_gone_is_one_line(apart: Apart) -> None:
    with pytest.raises(LaunchError, match=r"the server at unix:@.* is gone: .*start the actors again"):
        apart.run(last=apart.server.close)


def test_a_server_that_is_gone_is_named_without_its_password(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    native = apart.endpoint
    monkeypatch.setattr(separate_roles, "connect_role", lambda endpoint: connect_role(native))
    apart.endpoint = Endpoint("redis://me:pass@h:1/2", "run")
    with pytest.raises(LaunchError, match=r"^the server at redis://me@h:1/2 is gone: "):
        apart.run(last=apart.server.close)


def test_ctrl_c_ends_the_actors(apart: Apart) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert apart.run(last=interrupt) == "interrupt"
    assert len(apart.launcher.stopped) == 2


def test_several_actors_get_their_policies_from_a_relay_that_ends_with_the_run(
    apart: Apart, relays: list[Relay]
) -> None:
    assert apart.run([], actors=3) == "end"
    [relay] = relays
    assert [role.relay for role in apart.launcher.started] == 3 * [relay.endpoint]
    assert not relay_threads()
    with pytest.raises(StorageError):
        Client(relay.endpoint.address, timeout_seconds=0.0)


def test_a_single_actor_gets_its_policies_from_the_server(apart: Apart, relays: list[Relay]) -> None:
    assert apart.run([], actors=1) == "end"
    assert apart.launcher.started == [SeparateRole(0, "actor")]
    assert relays == []


def test_a_restarted_learner_gets_a_new_relay(apart: Apart, relays: list[Relay]) -> None:
    """Its policies may be older than the earlier ones."""

    def policies(version: int) -> None:
        for name in (POLICY.name, POLICY.news):
            apart.server.drop("run/" + name)
            apart.server.publish("run/" + name, b"data", version)

    def arrived() -> None:
        relay = apart.launcher.started[-1].relay
        assert relay is not None
        with contextlib.closing(connect_role(relay)) as actor:
            found = wait_for(lambda: actor.fetch(POLICY.news))
            assert found
            versions.append(found[0])

    def restart() -> None:
        apart.lose_notice()
        policies(4)
        apart.begin("second")

    versions: list[int] = []
    policies(9)
    assert apart.run([], last=in_turn(arrived, restart, arrived, apart.end)) == "end"
    assert versions == [9, 4]
    assert len(relays) == 2
    assert not relay_threads()


def test_an_error_of_the_relay_ends_the_actors_with_one_line(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(relay: Relay) -> None:
        raise LaunchError("newer policies can't be passed on")

    monkeypatch.setattr(Relay, "check", fail)
    with pytest.raises(LaunchError, match=r"^newer policies can't be passed on$"):
        apart.run(last=in_turn(lambda: None, apart.end))
    assert apart.launcher.stopped == ["separate-actor 0", "separate-actor 1"]
    assert not relay_threads()


def test_a_policy_is_fetched_once_for_all_processes(tmp_path: Path) -> None:
    """Three real actors act with the first policy, and then with a newer one."""
    spec = EnvironmentSpec((8,), "float32", actions=2)
    shapes = {"dense_0.weight": (20_000, 8), "dense_0.bias": (20_000,), "q.weight": (2, 20_000), "q.bias": (2,)}
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    policy = PolicyGraph(Architecture.of(spec, "mlp", (20_000,))).serialize(weights)
    corridor = "headrace.environments.toy:Corridor"
    settings = [
        ActorSettings(corridor, 3, index, (0.5,), DQN(), 50, spec, values=True, pull_period=10) for index in range(3)
    ]
    roles = [ActorRole(index, each, POLICY, REPLAY) for index, each in enumerate(settings)]
    with contextlib.closing(Server()) as server:
        endpoint = Endpoint(server.listen("unix:@"), "run")
        server.add_table("run/" + REPLAY.name, table_signature(spec))

        def publish(version: int) -> None:
            server.publish("run/" + POLICY.name, policy, version)
            server.publish("run/" + POLICY.news, Stamp.now().to_json().encode(), version)

        publish(1)
        publish_run(server, roles, corridor)
        said: list[str] = []
        thread = threading.Thread(target=lambda: said.append(run_separate(endpoint, "actor", 3, tmp_path, said.append)))
        thread.start()
        try:
            taken = dict.fromkeys(range(3), -1)
            deadline = time.monotonic() + 60
            for version in (1, 2):
                while min(taken.values()) < version - 1:
                    assert time.monotonic() < deadline, f"{said}, {taken}"
                    time.sleep(0.02)
                    for report in map(json.loads, server.drain("run/" + REPORTS)):
                        if "refreshed" in report:
                            taken[report["index"]] = report["refreshed"]["count"]
                if version == 1:
                    publish(2)
            connections = server.stats()["connections"]
        finally:
            server.publish("run/" + RUN, b"")
            thread.join(60)
    assert said[-1] == "end"
    assert len(policy) > 800_000
    sent = sum(connection["sent_bytes"] for connection in connections)
    assert 2 * len(policy) < sent < 3 * len(policy)


@pytest.mark.parametrize("kind", ["actor", "worker"])
def test_a_different_environment_is_refused_at_once(kind: ActingKind, tmp_path: Path) -> None:
    """A real actor or worker, whose machine has an environment with other actions."""
    spec = EnvironmentSpec((8,), "float32", actions=3)
    shapes = {"q.weight": (3, 8), "q.bias": (3,)}
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    corridor = "headrace.environments.toy:Corridor"
    settings = ActorSettings(corridor, 3, 0, (0.5,), DQN(), 50, spec, values=True)
    worker = WorkerRole(0, WorkerSettings(settings, 1, (), None, 3))
    role: ActingRole = worker if kind == "worker" else ActorRole(0, settings, POLICY, REPLAY)
    said: list[str] = []
    with contextlib.closing(Server()) as server:
        endpoint = Endpoint(server.listen("unix:@"), "run")
        server.add_table("run/" + REPLAY.name, table_signature(spec))
        server.publish("run/" + POLICY.name, PolicyGraph(Architecture.of(spec, "mlp", ())).serialize(weights))
        server.publish("run/" + GATE, Gate("open", 0).to_json())
        publish_run(server, [role], corridor)
        with pytest.raises(
            EnvironmentFault, match=r"Corridor\" has .* 2 discrete actions here, and .* 3 discrete actions"
        ):
            run_separate(endpoint, kind, 1, tmp_path, said.append)
    assert not any("died" in text for text in said)


def test_hangs_do_not_count_towards_the_minute_of_three_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dies after the 60 s that its environment is allowed, and three more."""
    now = [0.0]
    monkeypatch.setattr(deaths, "monotonic", lambda: now[0])
    notice, counted, said = dataclasses.replace(NOTICE, hang_seconds=60.0), deaths.Deaths(), list[str]()
    for generation in range(3):
        now[0] += 63.0
        ended = Exit(SeparateRole(0, "actor", generation=generation), "exit 76", False, "it hangs", hung=True)
        if generation < 2:
            separate_roles._replacement(ended, counted, notice, said.append)
    with pytest.raises(LaunchError, match="died 3 times"):
        separate_roles._replacement(ended, counted, notice, said.append)
