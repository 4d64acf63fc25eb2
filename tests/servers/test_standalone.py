"""Both ends of a run on a native server that other runs also use."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from headrace._native import ChunkWriter, Server, Signature
from headrace.errors import ChunkRefused, ClosedError, ConfigError, ServerError
from headrace.replay import BatchBuffer
from headrace.servers import Endpoint, RoleServer, RunServer, connect_role, open_server, read_token, standalone

from ..waiting import wait_for

SIGNATURE = Signature((2,), "float32")
ADDRESSES = ("unix:@", "tcp://127.0.0.1:0")
Open = Callable[..., RunServer]
Connect = Callable[..., RoleServer]


def chunk(writer: ChunkWriter | None = None) -> bytes:
    """Four transitions of one episode."""
    writer = writer or ChunkWriter(SIGNATURE, chunk_steps=4)
    writer.start(np.zeros(2, np.float32))
    for action in range(4):
        writer.append(action, 1.0, np.full(2, action, np.float32), action == 3, False)
    return writer.take()[0]


class Place:
    """A server in this process, and the ends that tests open on it."""

    def __init__(self, server: Server, address: str, stack: contextlib.ExitStack) -> None:
        self.native = server
        self.address = server.listen(address)
        self._stack = stack

    def server(self, run: str = "run") -> RunServer:
        return self._stack.enter_context(contextlib.closing(open_server(Endpoint(self.address, run))))

    def role(self, run: str = "run") -> RoleServer:
        return self._stack.enter_context(contextlib.closing(connect_role(Endpoint(self.address, run))))


@pytest.fixture(params=ADDRESSES, ids=["unix", "tcp"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    server = Server()
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        yield Place(server, request.param, stack)


def test_the_learner_samples_what_an_actor_inserts(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    place.role().insert("replay", chunk())
    ahead = table.batches_ahead(8, 0.4, 2)
    batch = ahead.next(10.0)
    assert batch is not None
    assert batch.action.shape == (8,)
    assert set(batch.action.tolist()) <= {0, 1, 2, 3}
    assert table.stats()["size"] == 4
    ahead.close()


def test_priorities_are_applied_in_the_background(place: Place) -> None:
    server = place.server()
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100, priority_exponent=1.0)
    place.role().insert("replay", chunk())
    native = place.native.table("run/replay")
    ahead = table.batches_ahead(64, 0.0, 2)
    batch = ahead.next(10.0)
    assert batch is not None
    key = np.unique(batch.key)  # four keys, in the order of their slots
    ahead.close()
    for _ in range(20):  # more than may be on their way at once
        table.update_priorities(key, np.array([1, 1, 1, 97], np.float32))
    table.close()
    native.reopen()
    buffer = BatchBuffer(SIGNATURE, 256)
    assert native.sample_into(buffer.view, 0.0)
    assert np.isclose(buffer.arrays.probability[buffer.arrays.key == key[3]], 0.97).all()
    assert (buffer.arrays.key == key[3]).mean() > 0.9


def test_two_runs_on_one_server_are_separate(place: Place) -> None:
    first, second = place.server("first"), place.server("second")
    tables = [server.add_table("replay", SIGNATURE, fresh=True, capacity=100) for server in (first, second)]
    place.role("first").insert("replay", chunk())
    place.role("first").put("reports", b"hello")
    first.publish("policy", b"graph", 7)
    assert [table.stats()["size"] for table in tables] == [4, 0]
    assert second.drain("reports") == []
    assert first.drain("reports") == [b"hello"]
    assert second.fetch("policy") is None
    tables[0].close()
    place.role("second").insert("replay", chunk())
    with pytest.raises(ClosedError):
        place.role("first").insert("replay", chunk())


def test_a_second_learner_of_a_run_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 0.3)
    first = place.server()
    with pytest.raises(ConfigError, match=r"run is run; it must be one without a learner on .*another owner"):
        place.server()
    first.close()
    place.server()  # the first is gone: within the seconds that it may take to be noticed


def test_a_fresh_start_finds_nothing_and_a_resumed_one_only_experience(place: Place) -> None:
    server = place.server()
    server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    place.role().insert("replay", chunk())
    server.publish("policy", b"old", 900)
    server.publish("run", b"notice")
    server.close()

    server = place.server()
    table = server.add_table("replay", SIGNATURE, fresh=False, capacity=100)
    assert table.stats()["size"] == 4
    assert server.fetch("policy") is None
    assert server.publish("policy", b"older", 400) == 400  # a checkpoint may be behind what was published
    server.close()

    server = place.server()
    assert server.add_table("replay", SIGNATURE, fresh=True, capacity=100).stats()["size"] == 0
    assert server.fetch("policy") is None


def test_a_fresh_start_whose_table_is_refused_leaves_the_earlier_run() -> None:
    small = Server(memory_bytes=1 << 20)
    with contextlib.ExitStack() as stack:
        stack.callback(small.close)
        place = Place(small, "unix:@", stack)
        server = place.server()
        server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
        place.role().insert("replay", chunk())
        server.publish("policy", b"old", 900)
        server.close()

        server = place.server()
        with pytest.raises(ServerError, match="memory"):
            server.add_table("replay", SIGNATURE, fresh=True, capacity=1_000_000)
        assert server.fetch("policy") == (900, b"old")
        assert server.add_table("replay", SIGNATURE, fresh=False, capacity=100).stats()["size"] == 4


def test_tables_of_an_earlier_run_make_room_for_a_fresh_start() -> None:
    small = Server(memory_bytes=6 << 20)
    with contextlib.ExitStack() as stack:
        stack.callback(small.close)
        place = Place(small, "unix:@", stack)
        server = place.server()
        server.add_table("simulated", SIGNATURE, fresh=True, capacity=20_000)
        server.close()
        server = place.server()
        server.add_table("replay", SIGNATURE, fresh=True, capacity=20_000)
        assert small.table_names() == ["run/replay"]


def test_a_fresh_start_drops_other_tables_of_an_earlier_one(place: Place) -> None:
    for name in ("simulated", "replay"):
        server = place.server()
        server.add_table(name, SIGNATURE, fresh=True, capacity=100)
        server.close()
    assert place.native.table_names() == ["run/replay"]


def test_a_closed_table_is_reopened_when_its_run_resumes(place: Place) -> None:
    server = place.server()
    server.add_table("replay", SIGNATURE, fresh=True, capacity=100).close()
    role = place.role()
    with pytest.raises(ClosedError):
        role.insert("replay", chunk())
    server.close()
    place.server().add_table("replay", SIGNATURE, fresh=False, capacity=100)
    place.role().insert("replay", chunk())


def test_an_older_version_is_refused_at_once(place: Place) -> None:
    server = place.server()
    assert server.publish("policy", memoryview(b"graph"), 5) == 5
    with pytest.raises(ServerError, match="version 4 is not above the stored version 5"):
        server.publish("policy", b"another", 4)
    assert server.publish("policy", b"graph", 5) == 5  # once more, as it was


def test_a_version_is_read_without_its_bytes(place: Place) -> None:
    server, role = place.server(), place.role()
    assert role.version("policy") == 0
    server.publish("policy", b"graph", 5)
    place.server("another").publish("policy", b"graph", 9)
    assert role.version("policy") == 5


def test_a_paused_table_holds_back_inserts(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    table.set_paused(True)
    role = place.role()
    inserts = threading.Thread(target=role.insert, args=("replay", chunk()), daemon=True)
    inserts.start()
    inserts.join(0.3)
    assert inserts.is_alive()
    assert table.stats()["size"] == 0
    table.set_paused(False)
    inserts.join(10)
    assert table.stats()["size"] == 4


def test_posted_chunks_are_stored_in_the_background(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    role = place.role()
    for _ in range(5):
        assert role.post("replay", chunk(), chunk())
    role.settle()
    assert table.stats()["size"] == 40


def test_only_so_many_posted_chunks_wait_for_a_paused_table(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    table.set_paused(True)
    role = place.role()
    taken = 0
    while role.post("replay", chunk(), wait=False):
        taken += 1
    assert 0 < taken < 25
    post = threading.Thread(target=role.post, args=("replay", chunk()), daemon=True)
    post.start()
    post.join(0.3)
    assert post.is_alive()
    table.set_paused(False)
    post.join(10)
    role.settle()
    assert table.stats()["size"] == 4 * (taken + 1)


def test_the_error_of_a_posted_chunk_is_raised_later(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    role = place.role()
    assert role.post("replay", b"no chunk")
    with pytest.raises(ChunkRefused):
        role.settle()
    assert role.post("replay", chunk())
    role.settle()
    table.close()
    assert role.post("replay", chunk())
    with pytest.raises(ClosedError):
        role.settle()


def test_a_claim_ends_with_its_connection(place: Place) -> None:
    first, second = place.role(), place.role()
    first.claim("actor/0", 1)
    with pytest.raises(ServerError, match="actor/0"):
        second.claim("actor/0", 2)
    place.role("other").claim("actor/0", 2)  # another run's place of that name
    first.close()
    wait_for(lambda: "run/actor/0" not in place.native.stats()["claims"])
    second.claim("actor/0", 2)


def test_batches_that_are_closed_stay_so_after_a_restart(place: Place) -> None:
    table = place.server().add_table("replay", SIGNATURE, fresh=True, capacity=100)
    assert isinstance(table, standalone.StandaloneTable)
    closed, going = (table.batches_ahead(2, 0.4, 2) for _ in range(2))
    closed.close()
    table.renew()
    with pytest.raises(ClosedError):
        closed.next(0.1)
    assert going.next(0.01) is None  # there is nothing in the table


def test_it_reports_no_restart_by_itself(place: Place) -> None:
    server = place.server()
    server.drain("reports")
    assert not server.restarted()


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"0123456789abcdef\n")
    assert read_token(str(path)) == b"0123456789abcdef"
    native = Server(token=b"0123456789abcdef")
    try:
        address = native.listen("tcp://127.0.0.1:0")
        with contextlib.closing(open_server(Endpoint(address, "run", str(path)))) as server:
            server.publish("policy", b"graph", 1)
    finally:
        native.close()


@pytest.mark.parametrize(("secret", "said"), [(None, "token_file is .*token"), (b"short\n", "token")])
def test_an_invalid_token_is_refused(tmp_path: Path, secret: bytes | None, said: str) -> None:
    path = tmp_path / "token"
    if secret is not None:
        path.write_bytes(secret)
    native = Server()
    try:
        endpoint = Endpoint(native.listen("tcp://127.0.0.1:0"), "run", str(path))
        for connect in (connect_role, open_server):
            with pytest.raises(ConfigError, match=said):
                connect(endpoint)
    finally:
        native.close()


def test_names_of_a_run_have_its_prefix() -> None:
    endpoint = Endpoint("tcp://[::1]:7447", "lander")
    assert endpoint.name("replay") == "lander/replay"
    assert Endpoint("unix:@x").name("replay") == "replay"


def test_the_embedded_server_is_reached_by_roles() -> None:
    with contextlib.closing(open_server(None)) as server:
        table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
        with contextlib.closing(connect_role(server.endpoint)) as role:
            role.insert("replay", chunk())
            role.put("reports", b"hello")
            server.publish("policy", b"graph", 3)
            assert role.fetch("policy") == (3, b"graph")
        assert table.stats()["size"] == 4
        assert server.drain("reports") == [b"hello"]
        assert not server.keeps_experience
        assert server.serves_samples
        assert not server.restarted()
