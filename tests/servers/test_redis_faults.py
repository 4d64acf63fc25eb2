"""A Redis that is wrong, gone, flushed, full or silent: recovery, or one clear line, and never a silent hang."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from headrace._native import ChunkWriter, Signature
from headrace.errors import ClosedError, ConfigError, HeadraceError, ServerError, StorageError
from headrace.servers import redis_connection
from headrace.servers.base import Endpoint
from headrace.servers.redis import RedisRoleServer, RedisServer
from headrace.servers.redis_connection import RedisAddress, RedisConnection

from ..waiting import wait_for

SIGNATURE = Signature((2,), "float32")
PATIENT = 30.0


def chunk(frame: int = 2) -> bytes:
    writer = ChunkWriter(Signature((frame,), "float32"), chunk_steps=4)
    writer.start(np.zeros(frame, np.float32))
    for action in range(4):
        writer.append(action, 1.0, np.zeros(frame, np.float32), action == 3, False)
    return writer.take()[0]


class Ends:
    """Opens the two ends of a run, and closes what it opened."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def server(self, address: str, **options: Any) -> RedisServer:
        return self._stack.enter_context(contextlib.closing(RedisServer(Endpoint(address, "run", **options))))

    def role(self, address: str, **options: Any) -> RedisRoleServer:
        return self._stack.enter_context(contextlib.closing(RedisRoleServer(Endpoint(address, "run", **options))))


@pytest.fixture
def ends() -> Iterator[Ends]:
    with contextlib.ExitStack() as stack:
        yield Ends(stack)


class Call:
    """A call in a separate thread, and its outcome."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.outcome: list[object] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome.append(self._call())
        except HeadraceError as error:
            self.outcome.append(error)

    def waits(self) -> bool:
        self._thread.join(0.3)
        return self._thread.is_alive()

    def result(self) -> object:
        self._thread.join(20.0)
        (outcome,) = self.outcome
        return outcome


def one_line(error: object, kind: type[HeadraceError], *parts: str) -> None:
    assert isinstance(error, kind)
    text = str(error)
    assert "\n" not in text
    assert [part for part in parts if part not in text] == [], text


# Wrong from the start.


@pytest.mark.parametrize(
    "address",
    [
        "redis://",
        "redis://:6379",
        "redis://host:port",
        "redis://host:70000",
        "redis://my..host:6379",
        "redis://host/zero",
        "redis://host/-1",
        "redis://host/0/1",
        "redis://host?db=1",
        "rediss://host",
        "rediss://me:secret@host",
        "redis://[::1:6379",
        "redis://:secret@[::1:6379",
        "redis://:secret@host/x",
        "redis://:se/cret@host",
        "redis://:secret/more@host",
        "redis://:secret?more@host",
        "redis://:secret#more@host",
    ],
)
def test_an_invalid_address(address: str) -> None:
    with pytest.raises(ConfigError, match=r"must be redis://\[:PASSWORD@\]HOST\[:PORT\]\[/DB\]") as caught:
        RedisAddress.parse(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "parts", "shown"),
    [
        ("redis://host", ("host", 6379, 0, "", ""), "redis://host:6379/0"),
        ("redis://:pass%40@host:1/2", ("host", 1, 2, "", "pass@"), "redis://host:1/2"),
        ("redis://me:pass@[::1]:7/", ("::1", 7, 0, "me", "pass"), "redis://me@[::1]:7/0"),
    ],
)
def test_an_address_shows_no_password(address: str, parts: tuple[object, ...], shown: str) -> None:
    assert tuple(RedisAddress.parse(address)) == parts
    assert str(RedisAddress.parse(address)) == shown


def test_no_server_listens(ends: Ends, redis_process: Any) -> None:
    redis_process.start()
    redis_process.stop()
    with pytest.raises(StorageError, match=r"^no Redis at redis://127\.0\.0\.1:\d+/0: .*[Rr]efused"):
        ends.server(redis_process.address, reconnect_seconds=PATIENT)
    with pytest.raises(StorageError, match="no Redis at"):
        ends.role(redis_process.address)


def test_a_password(ends: Ends, redis_process: Any, tmp_path: Path) -> None:
    redis_process.start("--requirepass", "wonder")
    bare = redis_process.address
    with pytest.raises(ConfigError, match="requires the right password"):
        ends.server(bare, reconnect_seconds=PATIENT)
    with pytest.raises(ConfigError, match="requires the right password") as caught:
        ends.server(bare.replace("//", "//:guess@"), reconnect_seconds=PATIENT)
    assert "guess" not in str(caught.value)
    assert ends.server(bare.replace("//", "//:wonder@")).publish("policy", b"p") == 1
    (tmp_path / "token").write_text("wonder\n")
    assert ends.role(bare, token_file=str(tmp_path / "token")).fetch("policy") == (1, b"p")


def test_a_password_that_is_not_text(ends: Ends, redis_server: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=f"^token_file is {tmp_path}/token; a Redis's password must be text"):
        ends.role(redis_server.address, token_file=str(tmp_path / "token"))


def test_a_user_without_permission(ends: Ends, redis_server: Any) -> None:
    redis_server.client().execute_command("ACL", "SETUSER", "me", "on", ">pass", "~*", "+@all", "-rpush")
    role = ends.role(redis_server.address.replace("//", "//me:pass@"), reconnect_seconds=PATIENT)
    with pytest.raises(ConfigError, match=r"redis://me@127\.0\.0\.1.* permissions.*rpush"):
        role.insert("replay", chunk())


def test_an_unknown_database(ends: Ends, redis_server: Any) -> None:
    ends.server(redis_server.address + "/15")
    with pytest.raises(ConfigError, match=r"redis://127\.0\.0\.1:\d+/16 has no database 16"):
        ends.server(redis_server.address + "/16", reconnect_seconds=PATIENT)


def test_something_else_answers(ends: Ends) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"redis://127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ConfigError, match=f"what answers at {address}/0 is not a Redis: .*HTTP/1.1 400"):
            ends.server(address)


def test_nothing_answers(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connection, "_TIMEOUT_SECONDS", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent as listener, pytest.raises(StorageError, match=r"^no Redis at redis://127\.0\.0\.1:\d+/0: .*[Tt]ime"):
        ends.server(f"redis://127.0.0.1:{listener.getsockname()[1]}")


def test_the_library_is_missing(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=r'pip install "headrace\[redis\]"'):
        ends.server("redis://host")


def test_a_redis_that_evicts(ends: Ends, redis_process: Any) -> None:
    redis_process.start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigError, match="is allkeys-lru; it must be noeviction"):
        ends.server(redis_process.address)
    redis_process.client().config_set("maxmemory-policy", "noeviction")
    ends.server(redis_process.address)


# Wrong in the middle of a run.


def test_restarted_redis(ends: Ends, redis_server: Any) -> None:
    """All clients wait for it, published blobs are published again, and the run continues."""
    address = redis_server.address
    server, role = (make(address, reconnect_seconds=PATIENT) for make in (ends.server, ends.role))
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100, min_size=8)
    batches = table.batches_ahead(4, 0.4, 1)
    role.insert("replay", chunk())
    server.publish("policy", b"old", 7)
    assert batches.next(0.2) is None
    wait_for(lambda: table.stats()["size"] == 4)
    redis_server.stop()
    calls = [Call(lambda: role.insert("replay", chunk())), Call(lambda: server.publish("policy", b"new", 8))]
    assert all(call.waits() for call in calls)
    redis_server.start()
    assert [call.result() for call in calls] == [None, 8]
    assert batches.next(10.0) is not None  # the first chunk was in the learner already
    assert [server.restarted(), server.restarted()] == [True, False]
    assert role.fetch("policy", 7) == (8, b"new")
    role.put("reports", b"r")
    assert server.drain("reports") == [b"r"]


def test_gone(ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After reconnect_seconds every caller gets an error, including a learner that waits for a batch."""
    address = redis_server.address
    server, role = (make(address, reconnect_seconds=0.3) for make in (ends.server, ends.role))
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    calls = [Call(lambda: table.batches_ahead(4, 0.4, 1).next(None))]
    assert calls[0].waits()
    redis_server.stop()
    calls.append(Call(lambda: role.insert("replay", chunk())))
    calls.append(Call(lambda: server.drain("reports")))
    for call in calls:
        one_line(call.result(), ClosedError, f"no Redis at {address}/0: ", "refused")
    with pytest.raises(ClosedError, match="no Redis at"):
        table.stats()
    for end in (server, role):  # a close() that waited for it again would not be done before the test's time is up
        monkeypatch.setattr(end._connection, "_reconnect_seconds", 3600.0)
    table.close()
    server.close()
    role.close()


def test_flushed(ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, role = ends.server(redis_server.address), ends.role(redis_server.address)
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100, min_size=8)
    batches = table.batches_ahead(4, 0.4, 1)
    role.insert("replay", chunk())
    server.publish("policy", b"old", 7)
    assert batches.next(0.2) is None
    redis_server.client().flushall()
    assert role.fetch("policy") is None
    assert server.restarted()
    server.publish("policy", b"old", 7)
    assert role.fetch("policy") == (7, b"old")
    for _ in range(3):  # one of them at most went with what the learner had read before
        role.insert("replay", chunk())
    assert batches.next(10.0) is not None


def test_out_of_memory(ends: Ends, redis_server: Any) -> None:
    address, watch = redis_server.address, redis_server.client()
    server, role, patient = ends.server(address), ends.role(address), ends.role(address, reconnect_seconds=PATIENT)
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    assert not server.restarted()
    watch.config_set("maxmemory", "1")
    calls = [
        lambda: role.insert("replay", chunk()),
        lambda: role.put("reports", b"r"),
        lambda: server.publish("policy", b"p"),
        lambda: role.claim("actor-0", 1),
    ]
    for call in calls:
        with pytest.raises(StorageError) as caught:
            call()
        one_line(caught.value, StorageError, f"{address}/0 refuses: ", "'maxmemory'", "a larger maxmemory is required")
    assert server.drain("reports") == []  # what gives memory back is never refused
    assert [server.restarted() for _ in range(2)] == [False, False]
    waiting = Call(lambda: patient.insert("replay", chunk()))
    assert waiting.waits()
    watch.config_set("maxmemory", "0")
    assert waiting.result() is None
    assert table.batches_ahead(4, 0.4, 1).next(10.0) is not None


def test_a_learner_that_pulls_makes_room(ends: Ends, redis_server: Any) -> None:
    """Chunks of 160 kB, and room for some thirty: all sixty arrive."""
    address, watch = redis_server.address, redis_server.client()
    server, role = ends.server(address), ends.role(address, reconnect_seconds=PATIENT)
    large = Signature((8192,), "float32")
    table = server.add_table("replay", large, fresh=True, capacity=1000)
    watch.config_set("maxmemory", watch.info("memory")["used_memory"] + 5_000_000)
    actor = Call(lambda: [role.insert("replay", chunk(8192)) for _ in range(60)])
    key = b"headrace:run:experience:replay:" + watch.get("headrace:run:queue:replay")
    wait_for(lambda: watch.llen(key) > 4)
    assert actor.waits()
    assert watch.llen(key) < 60
    batches = table.batches_ahead(4, 0.4, 1)
    assert batches.next(10.0) is not None
    assert actor.result() == [None] * 60
    while table.stats()["size"] < 240:
        assert batches.next(10.0) is not None


def test_a_message_of_another_program_is_named(ends: Ends, redis_server: Any) -> None:
    server = ends.server(redis_server.address)
    server._connection.call(lambda client: client.rpush(server._key("mailbox", "reports"), b"stray"))
    with pytest.raises(ServerError, match=r"mailbox:reports has a message of 5 bytes, which is not of this run"):
        server.drain("reports")


def test_a_replica_s_error_in_a_script_may_pass() -> None:
    """As Redis before version 7 reports it."""
    redis = pytest.importorskip("redis")
    said = "ERR Error running script (call to f_1): @user_script:7: @user_script: 7: -READONLY You can't write"
    passes = RedisConnection._passes
    assert passes(Mock(_redis=redis), redis.ResponseError(said))
    assert not passes(Mock(_redis=redis), redis.ResponseError("ERR unknown command"))


def test_a_replica_refuses_experience(ends: Ends, redis_server: Any) -> None:
    role = ends.role(redis_server.address, reconnect_seconds=0.2)
    redis_server.client().execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StorageError, match=r"redis://127\.0\.0\.1:\d+/0 refuses: .*read only replica"):
        role.insert("replay", chunk())


def test_silent(ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connection, "_TIMEOUT_SECONDS", 2.0)
    address = redis_server.address
    role, patient = ends.role(address), ends.role(address, reconnect_seconds=PATIENT)
    redis_server.freeze()
    one_line(Call(lambda: role.insert("replay", chunk())).result(), ClosedError, f"no Redis at {address}/0: ")
    waiting, ended = Call(lambda: patient.fetch("policy")), Call(lambda: role.fetch("policy"))
    one_line(ended.result(), ClosedError, "no Redis at")
    assert waiting.waits()
    redis_server.thaw()
    assert waiting.result() is None


def test_close_ends_a_call_to_a_silent_redis(ends: Ends, redis_server: Any) -> None:
    role = ends.role(redis_server.address, reconnect_seconds=PATIENT)
    redis_server.freeze()
    waiting = Call(lambda: role.fetch("policy"))
    assert waiting.waits()
    role.close()
    one_line(waiting.result(), ClosedError, "is closed")
    redis_server.thaw()


def test_a_lost_answer_neither_loses_nor_duplicates_data(
    ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    server, role = ends.server(redis_server.address, reconnect_seconds=PATIENT), ends.role(redis_server.address)
    cut = threading.Event()

    def cutting(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_cut(*arguments: Any, **options: Any) -> Any:
            answer = call(*arguments, **options)
            if cut.is_set():
                cut.clear()
                raise redis.ConnectionError("cut")
            return answer

        return call_and_cut

    monkeypatch.setattr(redis.client.Pipeline, "execute", cutting(redis.client.Pipeline.execute))
    monkeypatch.setattr(redis.Redis, "eval", cutting(redis.Redis.eval))
    drained = []
    for i in range(6):
        role.put("reports", str(i).encode())
        if i % 2:
            cut.set()
        drained += server.drain("reports")
        assert not cut.is_set()
    assert drained == [str(i).encode() for i in range(6)]
    cut.set()
    assert not server.restarted()
    assert not server.restarted()
