"""Sessions leave no file open, even if they can't be created."""

import os

import numpy as np
import pytest

from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.session import open_session
from headrace.types import EnvironmentSpec

ARCHITECTURE = Architecture.of(EnvironmentSpec((2,), "float32", 1), "mlp", ())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_file_in_memory_is_closed() -> None:
    graph = PolicyGraph(ARCHITECTURE).serialize({"q.weight": np.float32([[2, 3]]), "q.bias": np.float32([1])})
    open_session(graph)
    before = descriptors()
    session = open_session(graph)
    assert descriptors() == before
    np.testing.assert_array_equal(session.run(None, {"observation": np.float32([[10, 100]])})[0], [[321]])


def test_it_is_closed_after_a_failure() -> None:
    before = descriptors()
    with pytest.raises(Exception, match=r"(?i)protobuf|parse|invalid"):
        open_session(b"not a graph")
    assert descriptors() == before
