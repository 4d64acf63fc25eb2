"""The simulated server: native data, waits in simulated time."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace._native import ChunkWriter, OptimizerOptions, Signature
from headrace.clock import inhabit, monotonic, sleep, start_thread
from headrace.errors import ClosedError, ConfigError, ServerError
from headrace.launch.simulated.costs import Cost, Costs
from headrace.launch.simulated.link import Link
from headrace.launch.simulated.world import SimulatedWorld
from headrace.replay import BatchBuffer
from headrace.servers import connect_role, connect_tables, open_server, open_shards
from headrace.servers.simulated import SimulatedServer

SIGNATURE = Signature((2,), "float32")


def chunk() -> bytes:
    """Four transitions."""
    writer = ChunkWriter(SIGNATURE, chunk_steps=4)
    writer.start(np.zeros(2, np.float32))
    for _ in range(4):
        writer.append(0, 1.0, np.zeros(2, np.float32), False, False)
    writer.flush()
    return b"".join(writer.take())


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    """A server whose messages take a second each way; their size does not matter."""
    world = SimulatedWorld(8, Link(1.0, 1e15), Costs({"apply": Cost(1.0)}), 0)
    with inhabit(world):
        server = open_server(None, address="simulated:test")
        assert isinstance(server, SimulatedServer)
        yield server
        server.close()
        world.close()


def test_a_role_waits_for_the_link_and_the_training_process_does_not(server: SimulatedServer) -> None:
    role = connect_role(server.endpoint)
    assert server.publish("policy", b"graph", 3) == 3
    assert monotonic() == 0.0
    assert role.fetch("policy") == (3, b"graph")
    assert role.fetch("policy", 3) is None
    role.put("reports", b"hello")
    assert server.drain("reports") == [b"hello"]
    assert monotonic() == pytest.approx(6.0)
    assert role.version("policy") == 3
    role.close()
    with pytest.raises(ClosedError):
        role.fetch("policy")


def test_a_request_costs_processor_time_of_the_role_and_of_the_server() -> None:
    costs = Costs({"request": Cost(2.0, per_byte=0.01), "answer": Cost(1.0, per_byte=0.001)})
    world = SimulatedWorld(8, Link(0.0, 1e15), costs, 0)
    with inhabit(world):
        server = open_server(None, address="simulated:requests")
        server.publish("policy", bytes(1000), 1)

        def ask() -> None:
            role = connect_role(server.endpoint)
            role.fetch("policy")  # 12 s and 2 s
            role.put("reports", bytes(100))  # 3 s and 1.1 s
            role.version("policy")  # 2 s and 1 s

        world.start(world.process("worker 0"), ask, "main").join()
        assert monotonic() == pytest.approx(21.1)
        assert world.used_core_seconds() == {"worker": pytest.approx(17.0), "training": pytest.approx(4.1)}
        server.close()
        world.close()


def test_inserts_wait_until_the_limiter_lets_them_in(server: SimulatedServer) -> None:
    table = server.add_table(
        "replay", SIGNATURE, fresh=True, samples_per_insert=1.0, limiter_tolerance=8.0, capacity=64
    )
    role, stored = connect_role(server.endpoint), []

    def insert() -> None:
        for _ in range(8):
            role.insert("replay", chunk())
            stored.append(monotonic())

    thread = start_thread(insert, "inserts")
    sleep(100.0)
    blocked = len(stored)
    assert 0 < blocked < 8
    empty = server.add_table("empty", SIGNATURE, fresh=True, capacity=64)
    assert not empty.sample_into(BatchBuffer(SIGNATURE, 32), 0.4, 5.0)
    assert monotonic() == pytest.approx(105.0)
    while thread.is_alive():
        assert table.sample_into(BatchBuffer(SIGNATURE, 4), 0.4, 0.0)
        sleep(5.0)
    assert stored[blocked] == pytest.approx(106.0)  # at once, and a second for the answer


def test_posted_chunks_arrive_in_the_background_and_four_are_on_the_way(server: SimulatedServer) -> None:
    table, role = server.add_table("replay", SIGNATURE, fresh=True, capacity=64), connect_role(server.endpoint)
    assert [role.post("replay", chunk(), wait=False) for _ in range(5)] == [True] * 4 + [False]
    assert (monotonic(), len(table)) == (0.0, 0)
    role.settle()
    assert (monotonic(), len(table)) == (pytest.approx(8.0), 16)
    table.close()
    role.post("replay", chunk())
    with pytest.raises(ClosedError):
        role.settle()


def test_a_table_is_sampled_over_the_link(server: SimulatedServer) -> None:
    server.add_table("replay", SIGNATURE, fresh=True, capacity=64).insert(chunk())
    table, buffer = connect_tables(server.endpoint).table("replay"), BatchBuffer(SIGNATURE, 4)
    assert table.sample_into(buffer, 0.4, 0.0)
    assert table.update_priorities(buffer.arrays.key, np.ones(4, np.float32)) == 4
    assert table.stats()["size"] == 4
    assert monotonic() == pytest.approx(6.0)
    with pytest.raises(ServerError, match="replay"):
        connect_tables(server.endpoint).table("another")


def test_calls_wait_for_a_server_that_is_away_and_then_find_what_it_kept(server: SimulatedServer) -> None:
    table, role = server.add_table("replay", SIGNATURE, fresh=True, capacity=64), connect_role(server.endpoint)
    table.insert(chunk())
    server.publish("policy", b"graph", 3)
    server.stop()

    def restart() -> None:
        sleep(10.0)
        server.start(keeps=True)

    start_thread(restart, "restart")
    assert role.fetch("policy") is None
    assert monotonic() == pytest.approx(11.0)
    assert (server.restarted(), server.restarted(), server.outages()) == (True, False, 1)
    assert len(table) == 4
    server.start(keeps=False)
    assert len(table) == 0


def test_calls_give_a_server_up_after_a_minute(server: SimulatedServer) -> None:
    role = connect_role(server.endpoint)
    server.stop()
    with pytest.raises(ClosedError):
        role.fetch("policy")
    assert monotonic() == pytest.approx(61.0)


def test_gradients_go_to_shards_over_the_link(server: SimulatedServer) -> None:
    made, options = open_shards(server.endpoint, "model", 4), OptimizerOptions("sgd", learning_rate=1.0)
    assert made.open(options, np.zeros(4, np.float32), fresh=True) == 0
    shards, parameters = open_shards(server.endpoint, "model", 4), np.zeros(4, np.float32)
    assert shards.open(options, None, fresh=False) == 0
    begin = monotonic()
    shards.fetch_into(parameters)
    version, staleness, verdict = shards.push(np.ones(4, np.float32))
    assert (version, staleness, verdict) == (1, 0, "accepted")
    assert shards.fetch_into(parameters) == 1
    np.testing.assert_array_equal(parameters, [-1, -1, -1, -1])
    assert monotonic() - begin == pytest.approx(7.0)  # three calls, and a second to apply the gradient
    server.start(keeps=False)
    with pytest.raises(ServerError, match="shards"):
        shards.push(np.ones(4, np.float32))
    with pytest.raises(ConfigError, match="shard_servers"):
        open_shards(server.endpoint, "model", 4, 2, ["tcp://10.0.0.1:7447"])


def test_the_training_process_reaches_its_shards_without_the_link(server: SimulatedServer) -> None:
    shards, parameters = open_shards(server.endpoint, "model", 4), np.zeros(4, np.float32)
    shards.open(OptimizerOptions("sgd", learning_rate=1.0), np.ones(4, np.float32), fresh=True)
    shards.fetch_into(parameters)
    np.testing.assert_array_equal(parameters, [1, 1, 1, 1])
    shards.load(*shards.state())
    assert monotonic() == 0.0
    server.stop()
    with pytest.raises(ClosedError):
        shards.fetch_into(parameters)


def test_a_claim_has_one_owner_until_its_connection_ends(server: SimulatedServer) -> None:
    first, second, again = (connect_role(server.endpoint) for _ in range(3))
    first.claim("actor/0", 1)
    with pytest.raises(ServerError, match="actor/0"):
        second.claim("actor/0", 2)
    again.claim("actor/0", 1)  # the same owner, over another connection
    first.close()
    with pytest.raises(ServerError, match="actor/0"):
        second.claim("actor/0", 2)
    again.close()
    second.claim("actor/0", 2)
