"""A run on a real Redis: the contract of both its ends."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace._native import ChunkWriter, Signature
from headrace.errors import ChunkRefused, ClosedError, ConfigError, ServerError
from headrace.servers import redis as module
from headrace.servers.base import Endpoint
from headrace.servers.redis import RedisRoleServer, RedisServer

from ..waiting import wait_for

SIGNATURE = Signature((2,), "float32")
STEPS = 4


def chunk(start: int = 0) -> bytes:
    """Four transitions of one episode, with the actions start .. start + 3."""
    writer = ChunkWriter(SIGNATURE, chunk_steps=STEPS)
    writer.start(np.zeros(2, np.float32))
    for action in range(start, start + STEPS):
        writer.append(action, 1.0, np.full(2, action, np.float32), action + 1 == start + STEPS, False)
    return writer.take()[0]


class Ends:
    """Opens the two ends of runs on one Redis, and closes what it opened."""

    def __init__(self, address: str, stack: contextlib.ExitStack) -> None:
        self.address = address
        self._stack = stack

    def server(self, run: str = "run", **options: Any) -> RedisServer:
        return self._stack.enter_context(contextlib.closing(RedisServer(Endpoint(self.address, run, **options))))

    def role(self, run: str = "run", **options: Any) -> RedisRoleServer:
        return self._stack.enter_context(contextlib.closing(RedisRoleServer(Endpoint(self.address, run, **options))))


@pytest.fixture
def ends(redis_server: Any) -> Iterator[Ends]:
    with contextlib.ExitStack() as stack:
        yield Ends(redis_server.address, stack)


def test_chunks_of_actors_are_sampled_by_the_learner(ends: Ends) -> None:
    server = ends.server()
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100, sampler="uniform", min_size=12)
    actors = [ends.role(), ends.role()]
    assert actors[0].insert("replay", chunk(0)) is None
    actors[1].insert("replay", chunk(4))
    actors[0].insert("replay", chunk(8))
    batch = table.batches_ahead(300, 0.4, 1).next(10.0)
    assert batch is not None
    assert set(batch.action.tolist()) == set(range(12))
    assert not server.keeps_experience
    assert not server.serves_samples
    assert server.endpoint.address == ends.address


def test_a_chunk_sent_twice_is_stored_once(ends: Ends, redis_server: Any) -> None:
    """As after an answer that was lost; the same chunk from the actor once more is another one."""
    table = ends.server().add_table("replay", SIGNATURE, fresh=True, capacity=100, min_size=12)
    role, watch = ends.role(), redis_server.client()
    role.insert("replay", chunk())
    key = b"headrace:run:experience:replay:" + watch.get("headrace:run:queue:replay")
    watch.rpush(key, *watch.lrange(key, 0, -1))
    role.insert("replay", chunk())
    ends.role().insert("replay", chunk())
    assert table.batches_ahead(4, 0.4, 1).next(10.0) is not None
    wait_for(lambda: table.stats()["pulled_chunks"] == 4)
    assert table.stats()["size"] == 12
    assert table.stats()["refused_chunks"] == 0


def test_a_chunk_without_a_header_is_refused(ends: Ends) -> None:
    with pytest.raises(ChunkRefused, match="chunk has 63 bytes; it must have the 64 of a header"):
        ends.role().insert("replay", bytes(63))


def test_parameter_versions_increase(ends: Ends) -> None:
    server, role = ends.server(), ends.role()
    assert role.fetch("policy") is None
    assert server.publish("policy", b"a") == 1
    assert server.publish("policy", b"b", 5) == 5
    assert role.fetch("policy") == (5, b"b")
    assert role.fetch("policy", 4) == (5, b"b")
    assert role.fetch("policy", 5) is None
    assert server.publish("policy", b"b", 5) == 5  # an answer was lost
    for data, version in ((b"c", 5), (b"b", 4)):
        with pytest.raises(ServerError, match=f"version of policy is {version}; it must be above 5"):
            server.publish("policy", data, version)
    assert server.publish("policy", b"\x00\xff" * 50_000) == 6
    assert role.fetch("policy", 5) == (6, b"\x00\xff" * 50_000)
    assert server.fetch("policy") == role.fetch("policy")
    assert server.fetch("other") is None
    assert [role.version(name) for name in ("policy", "other")] == [6, 0]


def test_a_view_of_memory_is_published_as_its_bytes(ends: Ends) -> None:
    """As a learner's parameters are."""
    server, role = ends.server(), ends.role()
    array = np.arange(256, dtype=np.uint8)
    assert server.publish("parameters", array.data, 3) == 3
    assert role.fetch("parameters") == (3, bytes(range(256)))
    assert server.publish("parameters", array.data, 3) == 3
    assert server.publish("parameters", array[1:].data[:2], 4) == 4
    assert role.fetch("parameters", 3) == (4, b"\1\2")


def test_nothing_is_transferred_if_nothing_is_newer(ends: Ends, redis_server: Any) -> None:
    server, role, watch = ends.server(), ends.role(), redis_server.client()
    server.publish("policy", b"x" * 1_000_000, 3)
    before = watch.info("stats")["total_net_output_bytes"]
    for _ in range(10):
        assert role.fetch("policy", 3) is None
    between = watch.info("stats")["total_net_output_bytes"]
    assert role.fetch("policy", 2) is not None
    after = watch.info("stats")["total_net_output_bytes"]
    assert between - before < 20_000  # INFO's own answer is the most of it
    assert after - between > 1_000_000


def test_versions_above_what_a_double_writes_in_full(ends: Ends) -> None:
    server = ends.server()
    assert server.publish("policy", b"a", 2**50) == 2**50
    assert server.publish("policy", b"b") == 2**50 + 1
    assert server.fetch("policy", 2**50) == (2**50 + 1, b"b")


def test_messages_arrive_once_and_in_order(ends: Ends) -> None:
    server, one, two = ends.server(), ends.role(), ends.role()
    assert server.drain("reports") == []
    one.put("reports", b"1")
    two.put("reports", b"")
    one.put("reports", b"\x00pickle")
    assert server.drain("reports") == [b"1", b"", b"\x00pickle"]
    assert server.drain("reports") == []
    two.put("reports", b"4")
    assert server.drain("reports") == [b"4"]


def test_a_message_that_was_sent_twice_counts_once(ends: Ends, redis_server: Any) -> None:
    server, role = ends.server(), ends.role()
    role.put("reports", b"1")
    (sent,) = redis_server.client().lrange("headrace:run:mailbox:reports", 0, -1)
    redis_server.client().rpush("headrace:run:mailbox:reports", sent)
    role.put("reports", b"2")
    assert server.drain("reports") == [b"1", b"2"]


def test_the_oldest_of_too_many_messages_are_dropped(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAILBOX_MESSAGES", 3)
    server, role = ends.server(), ends.role()
    for i in range(5):
        role.put("reports", str(i).encode())
    assert server.drain("reports") == [b"2", b"3", b"4"]
    for i in range(5, 10):  # meanwhile those of above still lie there, as long as their answer may be lost
        role.put("reports", str(i).encode())
    assert server.drain("reports") == [b"7", b"8", b"9"]
    role.put("reports", b"10")
    assert server.drain("reports") == [b"10"]
    assert server.drain("reports") == []


def test_a_blocked_learner_blocks_the_actors(ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue holds 4 chunks, and 1 more of the actor that waits; 2 at once are with the learner, and stay in it."""
    monkeypatch.setattr(module, "_QUEUE_CHUNKS", 4)
    monkeypatch.setattr(module, "_PULL_CHUNKS", 2)
    table = ends.server().add_table("replay", SIGNATURE, fresh=True, capacity=1000)
    role, sent = ends.role(), []

    def act() -> None:
        for i in range(20):
            role.insert("replay", chunk(4 * i))
            sent.append(i)

    actor = threading.Thread(target=act)
    actor.start()
    watch = redis_server.client()
    key = b"headrace:run:experience:replay:" + watch.get("headrace:run:queue:replay")
    wait_for(lambda: watch.llen(key) == 5)
    actor.join(0.2)
    assert (len(sent), watch.llen(key)) == (4, 5)
    table.set_paused(True)
    batches = table.batches_ahead(4, 0.4, 1)
    assert batches.next(0.1) is None
    assert (len(sent), watch.llen(key)) == (4, 5)
    table.set_paused(False)
    actor.join(10.0)
    assert len(sent) == 20
    wait_for(lambda: table.stats()["size"] == 80 and watch.llen(key) == 0)
    assert table.stats()["pulled_chunks"] == 20


def test_large_chunks_are_limited_by_bytes(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUE_BYTES", 3000)
    role, sent = ends.role(), []

    def act() -> None:
        with contextlib.suppress(ClosedError):
            for i in range(10):
                role.insert("replay", bytes(1000))
                sent.append(i)

    actor = threading.Thread(target=act)
    actor.start()
    wait_for(lambda: len(sent) == 3)
    actor.join(0.1)
    assert len(sent) == 3
    role.close()
    actor.join(10.0)
    assert not actor.is_alive()


def test_a_closed_table_ends_its_actors(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUE_CHUNKS", 1)
    server = ends.server()
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    waiting, late = ends.role(), ends.role()
    outcome: list[BaseException] = []

    def act() -> None:
        try:
            waiting.insert("replay", chunk())
            waiting.insert("replay", chunk())
        except ClosedError as error:
            outcome.append(error)

    actor = threading.Thread(target=act)
    actor.start()
    actor.join(0.1)
    table.close()
    actor.join(10.0)
    assert len(outcome) == 1
    with pytest.raises(ClosedError, match=r"^the run at redis://127\.0\.0\.1:\d+/0 is closed$"):
        late.insert("replay", chunk())
    server.publish("evaluation", b"still answered")
    assert late.fetch("evaluation") == (1, b"still answered")


def test_a_run_that_ends_leaves_only_the_notice_of_its_end(ends: Ends, redis_server: Any) -> None:
    watch = redis_server.client()
    watch.set("another", "key")
    server, other = ends.server("run"), ends.server("run*")
    for each in (server, other):
        each.add_table("replay", SIGNATURE, fresh=True, capacity=100)
        each.publish("policy", b"p")
    role = ends.role("run")
    role.claim("actor-0", 3)
    role.insert("replay", chunk())
    role.put("reports", b"r")
    queue = watch.get("headrace:run:queue:replay").decode()
    server.close()
    role.close()
    left = sorted(key.decode() for key in watch.keys("*"))
    ended = "experience:replay:0"  # of roles that came before the learner
    kinds = ("claim:learner", ended, "mark", "parameters:policy", "queue:replay")
    others = [f"headrace:run%2A:{kind}" for kind in kinds]
    last = [f"headrace:run:{kind}" for kind in (f"experience:replay:{queue}", "parameters:policy", "queue:replay")]
    assert left == sorted(["another", *others, *last, f"headrace:run:{ended}"])
    assert 0 < watch.ttl(last[0]) <= 86_400
    assert 0 < watch.ttl(last[1]) <= 60
    assert 0 < watch.ttl(last[2]) <= 86_400
    assert watch.ttl(others[3]) == -1
    ends.server("run").publish("policy", b"q")
    assert watch.ttl(last[1]) == -1


@pytest.mark.parametrize("fresh", [True, False])
def test_a_second_start_of_a_run(ends: Ends, redis_server: Any, fresh: bool) -> None:
    """What a killed learner left: versions that would not rise, old reports, chunks that were not pulled."""
    watch = redis_server.client()
    watch.hset("headrace:run:parameters:policy", mapping={"version": 500, "bytes": b"old"})
    ends.role().put("reports", b"old")
    ends.role().insert("replay", chunk())
    server = ends.server()
    table = server.add_table("replay", SIGNATURE, fresh=fresh, capacity=100)
    assert server.publish("policy", b"new", 400) == 400
    assert server.drain("reports") == []
    batches = table.batches_ahead(4, 0.4, 1)
    assert (batches.next(0.2 if fresh else 30.0) is None) == fresh
    table.close()
    server.close()

    again = ends.server()
    table = again.add_table("replay", SIGNATURE, fresh=fresh, capacity=100)
    ends.role().insert("replay", chunk())
    assert table.batches_ahead(4, 0.4, 1).next(10.0) is not None


def test_a_run_may_have_several_tables(ends: Ends) -> None:
    server = ends.server()
    tables = [server.add_table(name, SIGNATURE, fresh=True, capacity=100) for name in ("replay", "transitions")]
    role = ends.role()
    for name in ("replay", "transitions"):
        role.insert(name, chunk())
    for table in tables:
        assert table.batches_ahead(4, 0.4, 1).next(10.0) is not None


def test_actors_of_an_earlier_start_do_not_fill_the_table_of_a_new_one(ends: Ends, redis_server: Any) -> None:
    """They had sent something, or nothing yet, or had not looked for the queue before Redis was flushed."""
    first = ends.server()
    first.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    old = ends.role()
    old.insert("replay", chunk())
    first._connection.close()  # as a killed learner leaves it
    redis_server.client().delete("headrace:run:claim:learner")
    server = ends.server()
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    with pytest.raises(ClosedError, match=r"^the run at .* is closed$"):
        old.insert("replay", chunk())
    ends.role().insert("replay", chunk())
    assert table.batches_ahead(4, 0.4, 1).next(10.0) is not None
    redis_server.client().flushdb()
    early = ends.role()
    early.insert("replay", chunk())
    assert server.restarted()
    with pytest.raises(ClosedError, match=r"^the run at .* is closed$"):
        early.insert("replay", chunk())
    ends.role().insert("replay", chunk())
    wait_for(lambda: table.stats()["size"] == 8)


def test_runs_on_one_redis_are_separate(ends: Ends) -> None:
    one, two = ends.server("a"), ends.server("a:b")
    one.publish("policy", b"1")
    two.publish("policy", b"2", 7)
    one.add_table("replay", SIGNATURE, fresh=True, capacity=10)
    assert one.fetch("policy") is None
    assert two.fetch("policy") == (7, b"2")
    ends.role("a").put("reports", b"a's")
    assert two.drain("reports") == []
    assert one.drain("reports") == [b"a's"]


def test_a_run_has_one_learner(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLAIM_WAIT_SECONDS", 0.3)
    server = ends.server()
    with pytest.raises(
        ConfigError, match=r"run is run; it must be one without a learner on .*, and another learner has this"
    ):
        ends.server()
    assert server.publish("policy", b"p") == 1
    ends.server("other")
    server.close()
    ends.server()


def test_a_claim_lasts_as_long_as_its_owner_is_open(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLAIM_MILLISECONDS", 3_000)
    monkeypatch.setattr(module, "_RENEWAL_SECONDS", 0.1)
    first, second = ends.role(), ends.role()
    first.claim("actor-0", 1)
    first.claim("actor-0", 1)
    second.claim("actor-1", 2)
    with pytest.raises(ServerError, match=r"actor-0 of run run at redis://.* has another owner"):
        second.claim("actor-0", 2)
    assert not first._connection._closed.wait(7.0)  # more than two lifetimes
    with pytest.raises(ServerError):
        second.claim("actor-0", 2)
    first.close()
    second.claim("actor-0", 2)


def test_a_claim_of_a_dead_owner_expires(ends: Ends, redis_server: Any) -> None:
    redis_server.client().set("headrace:run:claim:learner", "5", px=300)
    assert ends.server().publish("policy", b"p") == 1


def test_a_claim_that_was_lost_ends_its_owner(ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEWAL_SECONDS", 0.02)
    role = ends.role()
    role.claim("actor-0", 1)
    redis_server.client().set("headrace:run:claim:actor-0", "2")
    assert role._connection._closed.wait(10.0)
    with pytest.raises(ServerError, match=r"actor-0 of run run at .* was taken by another owner during an outage"):
        role.fetch("policy")
    redis_server.client().delete("headrace:run:claim:actor-0")


def test_a_learner_that_lost_its_run_changes_nothing_of_the_next_one(
    ends: Ends, redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first calls after an outage come before the next renewal of its claim. The next one continues its queue."""
    monkeypatch.setattr(module, "_RENEWAL_SECONDS", 1e6)
    server, client = ends.server(), redis_server.client()
    table = server.add_table("replay", SIGNATURE, fresh=True, capacity=100)
    assert table.batches_ahead(1, 0.4, 1).next(0.0) is None  # the puller has begun
    assert server.publish("policy", b"first") == 1
    client.set("headrace:run:claim:learner", "2")
    client.set("headrace:run:mark", "of the next one")
    ends.role().insert("replay", chunk())
    client.rpush("headrace:run:mailbox:reports", b"a message for the next one")
    kept = {key: client.dump(key) for key in client.scan_iter()}
    calls = (lambda: server.publish("policy", b"late"), lambda: server.drain("reports"), server.restarted)
    for call in (*calls, lambda: table.batches_ahead(1, 0.4, 1).next(10.0)):
        with pytest.raises(ServerError, match=r"^the run at redis://.* was taken by another learner during an outage$"):
            call()
    server.close()
    assert {key: client.dump(key) for key in client.scan_iter()} == kept


def test_restarted_reports_a_restart_once(ends: Ends, redis_server: Any) -> None:
    server = ends.server()
    assert [server.restarted() for _ in range(3)] == [False] * 3
    redis_server.client().flushall()
    assert [server.restarted() for _ in range(3)] == [True, False, False]
    redis_server.client().set("headrace:run:mark", "from an older copy")
    assert [server.restarted() for _ in range(3)] == [True, False, False]


def test_close_ends_calls_that_wait(ends: Ends) -> None:
    server, role = ends.server(), ends.role()
    server.close()
    server.close()
    role.close()
    role.close()
    calls: list[Callable[[], object]] = [
        lambda: server.publish("policy", b"p"),
        lambda: server.drain("reports"),
        server.restarted,
        lambda: role.fetch("policy"),
        lambda: role.put("reports", b""),
        lambda: role.insert("replay", chunk()),
        lambda: role.claim("actor-0", 1),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match=r"^the connection to redis://127\.0\.0\.1:\d+/0 is closed$"):
            call()
