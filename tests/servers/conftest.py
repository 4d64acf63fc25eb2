"""A simulated server whose messages are easy to count, and what tests of servers have in common."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace._native import ChunkWriter, Signature
from headrace.clock import inhabit
from headrace.launch.simulated.costs import Cost, Costs
from headrace.launch.simulated.link import Link
from headrace.launch.simulated.world import SimulatedWorld
from headrace.servers import open_server
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
def simulated_server() -> Iterator[SimulatedServer]:
    """A server whose messages take a second each way; their size does not matter."""
    world = SimulatedWorld(8, Link(1.0, 1e15), Costs({"apply": Cost(1.0)}), 0)
    with inhabit(world):
        server = open_server(None, address="simulated:test")
        assert isinstance(server, SimulatedServer)
        yield server
        server.close()
        world.close()
