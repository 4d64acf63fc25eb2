"""Each policy is fetched once per host, for all of its actors."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace._native import Server
from headrace.errors import ClosedError, LaunchError
from headrace.launch.relay import Relay
from headrace.roles.handles import POLICY
from headrace.servers import Endpoint, RoleServer, connect_role

from ..waiting import wait_for


class Upstream:
    """The run's server as the relay's connection shows it; records the versions of what is transferred."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[int, bytes]] = {}
        self.moved: list[tuple[str, int]] = []
        self.error: Exception | None = None
        self.closed = threading.Event()

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        self.blobs[name] = (version, bytes(data))
        return version

    def publish_policy(self, version: int) -> None:
        self.publish(POLICY.name, b"policy %d" % version, version)
        self.publish(POLICY.news, b"news %d" % version, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        if self.closed.is_set():
            raise ClosedError("the connection is closed")
        if self.error:
            raise self.error
        found = self.blobs.get(name)
        if found is None or found[0] <= newer_than:
            return None
        self.moved.append((name, found[0]))
        return found

    def version(self, name: str) -> int:
        raise AssertionError("it is dearer than a fetch")

    def insert(self, table: str, chunk: bytes) -> int | None:
        raise AssertionError("not by this way")

    def put(self, mailbox: str, message: bytes) -> None:
        raise AssertionError("not by this way")

    def claim(self, name: str, owner: int) -> None:
        raise AssertionError("not by this way")

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def relay(upstream: Upstream) -> Iterator[Relay]:
    with contextlib.closing(Relay(upstream, POLICY)) as made:
        yield made


@pytest.fixture
def actors(relay: Relay) -> Iterator[list[RoleServer]]:
    """Connections of three actors with the relay."""
    with contextlib.ExitStack() as ends:
        yield [ends.enter_context(contextlib.closing(connect_role(relay.endpoint))) for _ in range(3)]


def awaited(actor: RoleServer, version: int) -> list[tuple[int, bytes] | None]:
    """The policy and the news that an actor finds once there is news of that version."""
    wait_for(lambda: actor.fetch(POLICY.news, version - 1))
    return [actor.fetch(POLICY.name), actor.fetch(POLICY.news)]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "relay"]


def test_a_version_is_fetched_once_for_all_actors(upstream: Upstream, actors: list[RoleServer]) -> None:
    for version in (3, 4, 7):
        upstream.publish_policy(version)
        for actor in actors:
            assert awaited(actor, version) == [(version, b"policy %d" % version), (version, b"news %d" % version)]
    assert upstream.moved == [(name, version) for version in (3, 4, 7) for name in (POLICY.news, POLICY.name)]


def test_a_policy_newer_than_its_news_is_not_fetched_again(upstream: Upstream, actors: list[RoleServer]) -> None:
    upstream.publish_policy(1)
    awaited(actors[0], 1)
    upstream.publish(POLICY.name, b"policy 3", 3)
    upstream.publish(POLICY.news, b"news 2", 2)
    assert awaited(actors[0], 2) == [(3, b"policy 3"), (2, b"news 2")]
    upstream.publish(POLICY.news, b"news 3", 3)
    assert awaited(actors[1], 3) == [(3, b"policy 3"), (3, b"news 3")]
    assert [version for name, version in upstream.moved if name == POLICY.name] == [1, 3]


def test_news_are_not_published_before_their_policy(upstream: Upstream, actors: list[RoleServer]) -> None:
    """The server was restarted between the two and had an older policy first."""
    upstream.publish_policy(1)
    awaited(actors[0], 1)
    upstream.publish(POLICY.name, b"policy 4", 4)
    upstream.publish(POLICY.news, b"news 5", 5)
    wait_for(lambda: upstream.moved.count((POLICY.news, 5)) >= 3)  # it keeps polling
    assert actors[0].fetch(POLICY.news) == (1, b"news 1")
    upstream.publish(POLICY.name, b"policy 5", 5)
    assert awaited(actors[0], 5) == [(5, b"policy 5"), (5, b"news 5")]
    assert [version for name, version in upstream.moved if name == POLICY.name] == [1, 5]


def test_a_lost_run_server_is_reported_and_actors_keep_their_policies(
    upstream: Upstream, relay: Relay, actors: list[RoleServer]
) -> None:
    upstream.publish_policy(1)
    awaited(actors[0], 1)
    relay.check()
    upstream.close()
    with pytest.raises(ClosedError, match=r"^the connection is closed$"):
        wait_for(relay.check)
    assert actors[0].fetch(POLICY.name) == (1, b"policy 1")


def test_any_other_error_is_one_line(upstream: Upstream, relay: Relay) -> None:
    upstream.error = ValueError("no\nsuch thing")
    complaint = r"^newer policies can't be forwarded to the actors on this host: ValueError: no such thing \(test_relay"
    with pytest.raises(LaunchError, match=complaint):
        wait_for(relay.check)


def test_close_releases_the_actors(upstream: Upstream, relay: Relay, actors: list[RoleServer]) -> None:
    relay.close()
    assert upstream.closed.is_set()
    assert not threads()
    for actor in actors:
        with pytest.raises(ClosedError):
            actor.fetch(POLICY.name)


def test_it_survives_a_server_restart_and_closes_during_an_outage(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    relay = None
    for version in (5, 6):
        server = Server()
        server.listen(address)
        relay = relay or Relay(connect_role(Endpoint(address, "run", reconnect_seconds=600.0)), POLICY)
        server.publish("run/" + POLICY.name, b"policy", version)
        server.publish("run/" + POLICY.news, b"news", version)
        with contextlib.closing(connect_role(relay.endpoint)) as actor:
            assert awaited(actor, version) == [(version, b"policy"), (version, b"news")]
        server.close()
    assert relay is not None
    relay.check()
    relay.close()
    assert not threads()
