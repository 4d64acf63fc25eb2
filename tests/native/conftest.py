"""A server, chunks and arrays for the tests of the bindings."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace._native import ChunkWriter, Server, Signature

SIGNATURE = Signature((2,), "float32")
STEPS = 8


def chunk(steps: int = STEPS, signature: Signature = SIGNATURE) -> bytes:
    """One episode that terminates: observations filled with 0 .. T, actions 0 .. T-1, rewards i + 0.5."""
    writer = ChunkWriter(signature, discount=0.9, chunk_steps=steps)

    def frame(value: int) -> np.ndarray[Any, Any]:
        return np.full(signature.observation_shape, value, signature.observation_dtype)

    writer.start(frame(0))
    for i in range(steps):
        writer.append(i, i + 0.5, frame(i + 1), i + 1 == steps, False)
    (result,) = writer.take()
    return result


def arrays(batch: int = 4, signature: Signature = SIGNATURE) -> dict[str, np.ndarray[Any, Any]]:
    stack = () if signature.stack == 1 else (signature.stack,)
    observation = (batch, *stack, *signature.observation_shape)
    return {
        "observation": np.zeros(observation, signature.observation_dtype),
        "next_observation": np.zeros(observation, signature.observation_dtype),
        "action": np.zeros((batch, *signature.action_shape), signature.action_dtype),
        **{name: np.zeros(batch, np.float32) for name in ("reward", "discount", "weight", "probability")},
        **{name: np.zeros(batch, np.uint64) for name in ("key", "policy_version")},
    }


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=["unix:@", "tcp://127.0.0.1:0"])
def address(request: pytest.FixtureRequest, server: Server) -> str:
    return server.listen(request.param)
