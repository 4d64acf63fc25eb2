"""Separately started actors and workers: their settings and their slots."""

import dataclasses
import json
import threading
from collections.abc import Sequence

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.clock import new_event
from headrace.errors import ClosedError, ConfigError, ServerError
from headrace.gradients.handles import SharedHandle, VectorHandle
from headrace.roles import acting_role, separate_role
from headrace.roles.acting_role import ActingRole, claim_slot
from headrace.roles.actor import ActorSettings
from headrace.roles.base import GENERATIONS_PER_START, RUN, RoleContext, Stop
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.remote_actor import ActorRole
from headrace.roles.remote_worker import WorkerRole, WorkerSettings
from headrace.roles.separate_role import RunNotice, SeparateRole, await_notice, read_slot, slot_name
from headrace.servers import Endpoint, RoleServer
from headrace.types import ActingKind, EnvironmentSpec

SPEC = EnvironmentSpec((4,), "float32", 2)


class Memory:
    """A fake of a role's server; `taken` are the slots of other actors."""

    def __init__(self, *taken: str) -> None:
        self.blobs: dict[str, tuple[int, bytes]] = {}
        self.taken = set(taken)
        self.claims: list[str] = []
        self.fetches = 0

    def publish(self, name: str, data: bytes, version: int = 0) -> int:
        self.blobs[name] = (version or 1, data)
        return version or 1

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        self.fetches += 1
        return self.blobs.get(name)

    def insert(self, table: str, chunk: bytes) -> int | None:
        raise ClosedError("the run has ended")

    def put(self, mailbox: str, message: bytes) -> None:
        raise ClosedError("the run has ended")

    def claim(self, name: str, owner: int) -> None:
        if name in self.taken:
            raise ServerError(f"{name} is taken")
        self.claims.append(name)

    def close(self) -> None:
        pass


class Context(RoleContext):
    """A role's context whose every connection is `server`."""

    def __init__(self, server: Memory, stop: Stop | None = None) -> None:
        super().__init__(Endpoint(""), stop or new_event())
        self.server = server

    def connect(self, endpoint: Endpoint | None = None) -> RoleServer:
        return self.server


SETTINGS = ActorSettings("CartPole-v1", 3, 0, (0.1, 0.2), DQN(n_step=3, discount=0.99), 50, SPEC, values=True)
BASE = 3 * GENERATIONS_PER_START


def actors(slots: int) -> list[ActingRole]:
    return [ActorRole(index, SETTINGS, POLICY, REPLAY, generation=BASE) for index in range(slots)]


def workers(slots: int, *vectors: VectorHandle) -> list[ActingRole]:
    return [WorkerRole(index, WorkerSettings(SETTINGS, slots, vectors, None, 7)) for index in range(slots)]


def notice_of(roles: Sequence[ActingRole]) -> RunNotice:
    kind: ActingKind = "actor" if isinstance(roles[0], ActorRole) else "worker"
    return RunNotice("CartPole-v1", 60.0, "start", kind, len(roles), roles[0].relayed_policy)


def record_of(role: ActingRole) -> bytes:
    return json.dumps(role.to_record()).encode()


def publish(server: Memory, roles: Sequence[ActingRole]) -> None:
    server.publish(RUN, notice_of(roles).to_json().encode())
    for number, role in enumerate(roles):
        server.publish(slot_name(number), record_of(role))


@pytest.fixture
def acting(monkeypatch: pytest.MonkeyPatch) -> list[ActingRole]:
    """The roles that would act."""
    roles: list[ActingRole] = []
    for kind in (ActorRole, WorkerRole):
        monkeypatch.setattr(kind, "act", lambda role, *others: roles.append(role))
    return roles


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_role, "_CLAIM_SECONDS", 0.2)
    monkeypatch.setattr(acting_role, "_CLAIM_POLL_SECONDS", 0.01)
    monkeypatch.setattr(separate_role, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(separate_role, "_SPARE_POLL_SECONDS", 0.01)


def test_the_notice_round_trips_through_json() -> None:
    for roles in (actors(2), workers(2)):
        notice = notice_of(roles)
        assert RunNotice.from_json(notice.to_json()) == notice
        assert read_slot(record_of(roles[1]), notice.kind) == roles[1]


def test_the_roles_of_a_notice_are_of_its_kind() -> None:
    with pytest.raises(ConfigError, match=r"a run's notice.*kind is 'actor'; it must be worker"):
        read_slot(record_of(actors(1)[0]), "worker")


def test_a_role_that_shares_memory_with_the_learner_is_refused() -> None:
    """A notice comes from a server, and the path may be of another run's memory."""
    with pytest.raises(ConfigError, match="shares_memory is True"):
        read_slot(record_of(workers(1, SharedHandle("/dev/shm/model", "hogwild"))[0]), "worker")


def test_the_first_free_slot_is_taken() -> None:
    server = Memory("actor/0", "actor/1")
    assert claim_slot(server, "actor", range(4), new_event()) == 2
    assert server.claims == ["actor/2"]


def test_a_slot_that_becomes_free_soon_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_role, "_CLAIM_SECONDS", 30.0)
    server = Memory("actor/0")
    threading.Timer(0.05, server.taken.clear).start()
    assert claim_slot(server, "actor", [0], new_event()) == 0


def test_no_free_slot_returns_none_and_a_stop_ends_the_wait() -> None:
    server = Memory("actor/0")
    assert claim_slot(server, "actor", [0], new_event()) is None
    stop = new_event()
    stop.set()
    with pytest.raises(ClosedError):
        claim_slot(server, "actor", [0], stop)


def test_a_spare_actor_reports_it_and_takes_the_next_free_slot(
    acting: list[ActingRole], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    waits = threading.Event()
    monkeypatch.setattr(separate_role, "_say", lambda text: (said.append(text), waits.set()))
    server = Memory("actor/0", "actor/1")
    publish(server, actors(2))
    spare = threading.Thread(target=SeparateRole(0, "actor").run, args=(Context(server),), daemon=True)
    spare.start()
    assert waits.wait(30)
    server.taken.remove("actor/1")
    spare.join(30)
    assert [role.name for role in acting] == ["actor 1"]
    assert said == ["all 2 actor slots of the run are taken; waiting for a free one"]


def test_a_spare_actor_can_be_stopped() -> None:
    server, stop = Memory("actor/0"), new_event()
    publish(server, actors(1))
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(ClosedError):
        SeparateRole(0, "actor").run(Context(server, stop))


def test_a_worker_takes_a_slot_of_workers(acting: list[ActingRole]) -> None:
    server = Memory("actor/1", "worker/0")
    publish(server, workers(2))
    SeparateRole(0, "worker").run(Context(server))
    assert [role.name for role in acting] == ["worker 1"]
    assert server.claims == ["worker/1"]


def test_an_actor_gets_the_relay(acting: list[ActingRole]) -> None:
    server, relay = Memory(), Endpoint("unix:@relay")
    publish(server, actors(1))
    SeparateRole(0, "actor", relay).run(Context(server))
    [role] = acting
    assert isinstance(role, ActorRole)
    assert role.relay == relay


def test_it_waits_for_a_learner_and_reports_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separate_role, "_PATIENCE_SECONDS", 0.0)
    server, said = Memory(), []
    server.publish(RUN, b"")  # of a run that has ended
    assert await_notice(server, lambda: server.fetches > 5, said.append) is None
    assert said == ["this run has no learner yet; waiting for it"]
    publish(server, actors(1))
    assert await_notice(server, lambda: False, said.append) == notice_of(actors(1))


def test_it_does_not_repeat_episodes_of_its_predecessors(acting: list[ActingRole]) -> None:
    server = Memory("actor/0")
    publish(server, actors(2))
    for _ in range(2):
        SeparateRole(0, "actor").run(Context(server))
    assert [role.name for role in acting] == ["actor 1", "actor 1"]
    assert acting[0].generation != acting[1].generation
    assert all(BASE <= role.generation < BASE + GENERATIONS_PER_START for role in acting)
    assert acting[0] == dataclasses.replace(actors(2)[1], generation=acting[0].generation)
