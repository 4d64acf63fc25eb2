"""What a role's requests to the simulated server cost, and do."""

import numpy as np
import pytest

from headrace.clock import inhabit, monotonic, sleep
from headrace.errors import ClosedError, ServerError
from headrace.launch.simulated.costs import Cost, Costs
from headrace.launch.simulated.link import Link
from headrace.launch.simulated.world import SimulatedWorld
from headrace.replay import BatchBuffer
from headrace.servers import connect_role, connect_tables, open_server
from headrace.servers.simulated import SimulatedServer

from .conftest import SIGNATURE, chunk


def test_a_role_waits_for_the_link_and_the_training_process_does_not(simulated_server: SimulatedServer) -> None:
    role = connect_role(simulated_server.endpoint)
    assert simulated_server.publish("policy", b"graph", 3) == 3
    assert monotonic() == 0.0
    assert role.fetch("policy") == (3, b"graph")
    assert role.fetch("policy", 3) is None
    role.put("reports", b"hello")
    assert simulated_server.drain("reports") == [b"hello"]
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


def test_posted_chunks_arrive_together_in_the_background_and_four_are_on_the_way(
    simulated_server: SimulatedServer,
) -> None:
    table, role = (
        simulated_server.add_table("replay", SIGNATURE, fresh=True, capacity=64),
        connect_role(simulated_server.endpoint),
    )
    assert [role.post("replay", chunk(), wait=False) for _ in range(5)] == [True] * 4 + [False]
    assert (monotonic(), len(table)) == (0.0, 0)
    role.settle()
    assert (monotonic(), len(table)) == (pytest.approx(2.0), 16)
    role.post("replay", chunk())
    sleep(0.5)  # the first is under way
    role.post("replay", chunk())
    role.post("replay", chunk())
    role.settle()
    assert (monotonic(), len(table)) == (pytest.approx(6.0), 28)
    table.close()
    role.post("replay", chunk())
    with pytest.raises(ClosedError):
        role.settle()


def test_a_table_is_sampled_over_the_link(simulated_server: SimulatedServer) -> None:
    simulated_server.add_table("replay", SIGNATURE, fresh=True, capacity=64).insert(chunk())
    table, buffer = connect_tables(simulated_server.endpoint).table("replay"), BatchBuffer(SIGNATURE, 4)
    assert table.sample_into(buffer, 0.4, 0.0)
    assert table.update_priorities(buffer.arrays.key, np.ones(4, np.float32)) == 4
    assert table.stats()["size"] == 4
    assert monotonic() == pytest.approx(6.0)
    with pytest.raises(ServerError, match="replay"):
        connect_tables(simulated_server.endpoint).table("another")
