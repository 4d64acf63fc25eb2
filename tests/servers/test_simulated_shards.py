"""The shards of a simulated run."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions
from headrace.clock import monotonic
from headrace.errors import ClosedError, ConfigError, ServerError
from headrace.servers import open_shards
from headrace.servers.simulated import SimulatedServer


def test_gradients_go_to_shards_over_the_link(simulated_server: SimulatedServer) -> None:
    made, options = open_shards(simulated_server.endpoint, "model", 4), OptimizerOptions("sgd", learning_rate=1.0)
    assert made.open(options, np.zeros(4, np.float32), fresh=True) == 0
    shards, parameters = open_shards(simulated_server.endpoint, "model", 4), np.zeros(4, np.float32)
    assert shards.open(options, None, fresh=False) == 0
    begin = monotonic()
    shards.fetch_into(parameters)
    version, staleness, verdict = shards.push(np.ones(4, np.float32))
    assert (version, staleness, verdict) == (1, 0, "accepted")
    assert shards.fetch_into(parameters) == 1
    np.testing.assert_array_equal(parameters, [-1, -1, -1, -1])
    assert monotonic() - begin == pytest.approx(7.0)  # three calls, and a second to apply the gradient
    simulated_server.start(keeps=False)
    with pytest.raises(ServerError, match="shards"):
        shards.push(np.ones(4, np.float32))
    with pytest.raises(ConfigError, match="shard_servers"):
        open_shards(simulated_server.endpoint, "model", 4, 2, ["tcp://10.0.0.1:7447"])


def test_the_training_process_reaches_its_shards_without_the_link(simulated_server: SimulatedServer) -> None:
    shards, parameters = open_shards(simulated_server.endpoint, "model", 4), np.zeros(4, np.float32)
    shards.open(OptimizerOptions("sgd", learning_rate=1.0), np.ones(4, np.float32), fresh=True)
    shards.fetch_into(parameters)
    np.testing.assert_array_equal(parameters, [1, 1, 1, 1])
    shards.load(*shards.state())
    assert monotonic() == 0.0
    simulated_server.stop()
    with pytest.raises(ClosedError):
        shards.fetch_into(parameters)
