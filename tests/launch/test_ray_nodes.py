"""Which nodes of a cluster are gone."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.launch.ray import nodes
from headrace.launch.ray.nodes import Nodes

from ..waiting import wait_for


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Raylet:
    """What a node's raylet shows to others: a port that accepts connections."""

    def __init__(self, node: str) -> None:
        self.node, self.alive = node, True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def record(self) -> dict[str, Any]:
        return {
            "NodeID": self.node,
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerPort": self.port,
            "Resources": {"CPU": 4.0},
            "Alive": self.alive,
        }


class Bench:
    def __init__(self) -> None:
        self.raylets = [Raylet("here00"), Raylet("there0")]
        self.time = Time()
        self.listed = 0
        self.nodes = Nodes(self._list, "here00", self.time)

    def _list(self) -> list[dict[str, Any]]:
        self.listed += 1
        return [raylet.record() for raylet in self.raylets]

    def turn(self) -> None:
        """Waits until the nodes have been listed and probed once more."""
        seen = self.listed
        wait_for(lambda: self.listed > seen + 1)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(nodes, "_PERIOD_SECONDS", 0.01)
    made = Bench()
    yield made
    made.nodes.close()


def test_nodes_that_accept_connections_are_there(bench: Bench) -> None:
    bench.turn()
    bench.time.now = 100.0
    bench.turn()
    assert bench.nodes.lost() == frozenset()
    assert (bench.nodes.name("there0"), bench.nodes.cpus("there0")) == ("node 127.0.0.1 (there0)", 4.0)
    assert (bench.nodes.name("gone00"), bench.nodes.cpus("gone00")) == ("node gone00", 0.0)


def test_a_node_that_ray_calls_dead_is_lost_at_once(bench: Bench) -> None:
    bench.raylets[1].alive = False
    bench.turn()
    assert bench.nodes.lost() == {"there0"}


def test_the_death_of_this_node_is_told(bench: Bench) -> None:
    bench.turn()
    assert not bench.nodes.own_died
    bench.raylets[0].alive = False
    bench.turn()
    assert bench.nodes.own_died


def test_a_raylet_that_refuses_connections_is_lost_soon_and_this_node_never(bench: Bench) -> None:
    bench.turn()
    for raylet in bench.raylets:
        raylet.listener.close()
    bench.turn()
    assert bench.nodes.lost() == frozenset()
    bench.time.now += 1.6
    assert bench.nodes.lost() == frozenset()  # it may have answered meanwhile
    bench.turn()
    assert bench.nodes.lost() == {"there0"}


def test_a_node_that_does_not_answer_is_lost_only_after_a_short_outage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> socket.socket:
        raise TimeoutError

    bench.turn()
    with monkeypatch.context() as patch:
        patch.setattr(nodes.socket, "create_connection", unreachable)
        bench.turn()
        bench.time.now += 10.0
        bench.turn()
        assert bench.nodes.lost() == frozenset()
        bench.time.now += 1.1
        bench.turn()
        assert bench.nodes.lost() == {"there0"}
    bench.turn()
    assert bench.nodes.lost() == frozenset()


def test_a_raylet_that_was_never_reached_is_left_to_ray(bench: Bench) -> None:
    other = Raylet("behind")
    other.listener.close()
    bench.raylets.append(other)
    bench.turn()
    bench.time.now += 100.0
    bench.turn()
    assert bench.nodes.lost() == frozenset()


def test_a_list_out_of_reach_keeps_the_last_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable() -> list[dict[str, Any]]:
        bench.listed += 1
        raise ConnectionError

    monkeypatch.setattr(bench.nodes, "_list_nodes", unreachable)
    bench.turn()
    assert bench.nodes.cpus("there0") == 4.0
