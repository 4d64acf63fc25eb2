"""The simulated server: native data, waits in simulated time."""

import pytest

from headrace.clock import monotonic, sleep, start_thread
from headrace.errors import ClosedError, ServerError
from headrace.replay import BatchBuffer
from headrace.servers import connect_role
from headrace.servers.simulated import SimulatedServer

from .conftest import SIGNATURE, chunk


def test_inserts_wait_until_the_limiter_lets_them_in(simulated_server: SimulatedServer) -> None:
    table = simulated_server.add_table(
        "replay", SIGNATURE, fresh=True, samples_per_insert=1.0, limiter_tolerance=8.0, capacity=64
    )
    role, stored = connect_role(simulated_server.endpoint), []

    def insert() -> None:
        for _ in range(8):
            role.insert("replay", chunk())
            stored.append(monotonic())

    thread = start_thread(insert, "inserts")
    sleep(100.0)
    blocked = len(stored)
    assert 0 < blocked < 8
    empty = simulated_server.add_table("empty", SIGNATURE, fresh=True, capacity=64)
    assert not empty.sample_into(BatchBuffer(SIGNATURE, 32), 0.4, 5.0)
    assert monotonic() == pytest.approx(105.0)
    while thread.is_alive():
        assert table.sample_into(BatchBuffer(SIGNATURE, 4), 0.4, 0.0)
        sleep(5.0)
    assert stored[blocked] == pytest.approx(106.0)  # at once, and a second for the answer


def test_calls_wait_for_a_server_that_is_away_and_then_find_what_it_kept(simulated_server: SimulatedServer) -> None:
    table, role = (
        simulated_server.add_table("replay", SIGNATURE, fresh=True, capacity=64),
        connect_role(simulated_server.endpoint),
    )
    table.insert(chunk())
    simulated_server.publish("policy", b"graph", 3)
    simulated_server.stop()

    def restart() -> None:
        sleep(10.0)
        simulated_server.start(keeps=True)

    start_thread(restart, "restart")
    assert role.fetch("policy") is None
    assert monotonic() == pytest.approx(11.0)
    assert (simulated_server.restarted(), simulated_server.restarted(), simulated_server.outages()) == (True, False, 1)
    assert len(table) == 4
    simulated_server.start(keeps=False)
    assert len(table) == 0


def test_calls_give_a_server_up_after_a_minute(simulated_server: SimulatedServer) -> None:
    role = connect_role(simulated_server.endpoint)
    simulated_server.stop()
    with pytest.raises(ClosedError):
        role.fetch("policy")
    assert monotonic() == pytest.approx(61.0)


def test_a_claim_has_one_owner_until_its_connection_ends(simulated_server: SimulatedServer) -> None:
    first, second, again = (connect_role(simulated_server.endpoint) for _ in range(3))
    first.claim("actor/0", 1)
    with pytest.raises(ServerError, match="actor/0"):
        second.claim("actor/0", 2)
    again.claim("actor/0", 1)  # the same owner, over another connection
    first.close()
    with pytest.raises(ServerError, match="actor/0"):
        second.claim("actor/0", 2)
    again.close()
    second.claim("actor/0", 2)
