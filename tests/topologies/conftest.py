"""What tests of several topologies need."""

from collections.abc import Callable

import numpy as np
import pytest

from headrace.replay import Table


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
