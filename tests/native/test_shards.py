"""`_native.ShardedModel`: what Python passes in and gets out; the rest is native/tests/."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server, ShardedModel
from headrace.errors import ClosedError, ConfigError, ServerError, StorageError

DESCENT = OptimizerOptions("sgd", learning_rate=0.5)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def address(server: Server) -> str:
    return server.listen("unix:@")


def test_a_gradient_and_back(server: Server, address: str):
    model = ShardedModel([address], "run/model", 3, shards=2)
    assert model.open(DESCENT, np.array([1, 2, 3], np.float32), fresh=True) == 0
    values = np.zeros(3, np.float32)
    assert model.fetch_into(values) == 0
    assert values.tolist() == [1, 2, 3]
    assert model.fetch_into(values) is None
    assert model.push(np.array([2, 4, -2], np.float32)) == (1, 0, "accepted")
    assert model.push(np.array([0, np.nan, 0], np.float32)) == (1, 0, "refused")
    assert model.fetch_into(values) == 1
    assert values.tolist() == [0, 0, 4]
    shards = server.stats()["shards"]
    assert {name: shard["size"] for name, shard in shards.items()} == {"run/model/0": 2, "run/model/1": 1}
    assert all(shard["accepted"] == 1 and shard["refused"] == 1 for shard in shards.values())
    assert server.drop("run/") == 2
    with pytest.raises(ServerError, match=r'shard "run/model/0" is not on this server'):
        model.fetch_into(values)


@pytest.mark.parametrize("share", [True, False])
def test_memory_is_shared_over_a_unix_socket_unless_it_should_not_be(address: str, share: bool):
    model = ShardedModel([address], "model", 100_000, share=share)
    assert model.shared == share
    model.open(DESCENT, np.ones(100_000, np.float32), fresh=True)
    values = np.zeros(100_000, np.float32)
    model.fetch_into(values)
    model.push(values)
    assert model.fetch_into(values) == 1
    assert (values == 0.5).all()


def test_state_is_parameters_and_moments(address: str):
    model = ShardedModel([address], "model", 5, shards=3)
    model.open(OptimizerOptions("momentum", learning_rate=0.5, decay=0.5), np.zeros(5, np.float32), fresh=True)
    with pytest.raises(ConfigError, match="fetched before the first push"):
        model.push(np.ones(5, np.float32))
    model.fetch_into(np.zeros(5, np.float32))
    model.push(np.ones(5, np.float32))
    version, state = model.state()
    assert version == 1
    assert state.tolist() == [[-0.5] * 5, [1.0] * 5]
    model.load(7, np.stack([np.arange(5), np.zeros(5)]).astype(np.float32))
    values = np.zeros(5, np.float32)
    assert model.fetch_into(values) == 7
    assert values.tolist() == [0, 1, 2, 3, 4]


def test_impossible_arguments_are_refused_in_one_line(address: str):
    with pytest.raises(ConfigError, match="shards: 4 given, 1 to 3 required"):
        ShardedModel([address], "model", 3, shards=4)
    model = ShardedModel([address], "model", 3)
    with pytest.raises(ConfigError, match="initial"):
        model.open(DESCENT, np.zeros(3), fresh=True)  # float64
    with pytest.raises(ConfigError, match="initial parameters of 2 floats: 3 required"):
        model.open(DESCENT, np.zeros(2, np.float32), fresh=True)
    with pytest.raises(ConfigError, match="accept, drop, scale or compensate"):
        model.open(DESCENT, np.zeros(3, np.float32), fresh=True, policy="hope")
    with pytest.raises(ServerError, match="no initial values"):
        model.open(DESCENT, fresh=False)
    model.open(DESCENT, np.zeros(3, np.float32), fresh=True)
    for wrong in (np.zeros(4, np.float32), np.zeros(3)):
        with pytest.raises(ConfigError, match="parameters"):
            model.fetch_into(wrong)
    with pytest.raises(ServerError, match=r"policy=accept.*policy=scale"):
        model.open(DESCENT, fresh=False, policy="scale")


def test_shards_of_one_run_count_against_the_memory_budget():
    server = Server(memory_bytes=1_000_000)
    model = ShardedModel([server.listen("unix:@")], "model", 500_000)
    with pytest.raises(ServerError, match="memory budget"):
        model.open(DESCENT, np.zeros(500_000, np.float32), fresh=True)
    server.close()


def test_a_closed_server_ends_its_models(server: Server, address: str):
    model = ShardedModel([address], "model", 3)
    model.open(DESCENT, np.zeros(3, np.float32), fresh=True)
    server.close()
    with pytest.raises(ClosedError):
        model.fetch_into(np.zeros(3, np.float32))
    with pytest.raises(StorageError, match="no server answers"):
        ShardedModel([address], "model", 3, timeout_seconds=0.0)
