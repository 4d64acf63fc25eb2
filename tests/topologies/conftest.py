"""What tests of several topologies need."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace import DQN, Serial
from headrace.algorithms.config import Algorithm
from headrace.environments import describe
from headrace.replay import Table
from headrace.servers import EmbeddedServer
from headrace.topologies.base import RunContext
from headrace.topologies.workers import Workers

CPU = "cpu"
CARTPOLE = "CartPole-v1"
TARGET = "headrace.environments.toy:Target"
SMALL: dict[str, Any] = {
    "hidden": (16,),
    "batch_size": 16,
    "replay_capacity": 2_000,
    "learning_starts": 100,
    "samples_per_step": 4,
    "target_update_period": 7,
    "epsilon_decay_steps": 300,
}
PLAIN = DQN(**{**SMALL, "double": False, "prioritized": False, "n_step": 1, "loss": "squared"})


@pytest.fixture
def fill() -> Callable[[Table], None]:
    """Adds 100 transitions of one episode to a table, all with observations of zeros and rewards of 1."""

    def add(table: Table) -> None:
        observation = np.zeros(table.signature.observation_shape, np.float32)
        writer = table.writer()
        writer.start(observation)
        for _ in range(100):
            writer.append(0, 1.0, observation, False, False)
        writer.flush()

    return add


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    server = EmbeddedServer()
    yield server
    server.close()


def context_of(server: EmbeddedServer, algorithm: Algorithm, config: Workers | Serial, seed: int = 5) -> RunContext:
    environment = CARTPOLE if "discrete" in algorithm.action_kinds else TARGET
    spec = describe(environment)
    vectors = config.open_vectors(algorithm, server.endpoint)
    updater = algorithm.make_updater(spec, CPU, seed, vectors)
    return RunContext(environment, spec, seed, algorithm, updater, server, run_id="mine", vectors=vectors)
