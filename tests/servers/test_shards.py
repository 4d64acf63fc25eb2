"""A run's parameters in shards of several servers."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.errors import ClosedError, ServerError, StorageError
from headrace.servers import Endpoint, blamed_server, lost_updates, open_shards


def test_the_server_that_lost_its_shard_is_named(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        addresses = []
        servers = []
        for name in ("run", "one", "two"):
            servers.append(Server())
            stack.callback(servers[-1].close)
            addresses.append(servers[-1].listen(f"unix:{tmp_path / name}"))
        endpoint = Endpoint(addresses[0], "run", reconnect_seconds=60.0)
        model = stack.enter_context(contextlib.closing(open_shards(endpoint, "model", 9, 3, addresses[1:])))
        model.open(OptimizerOptions("sgd", learning_rate=0.1), np.zeros(9, np.float32), fresh=True)
        servers[1].close()
        again = Server()
        stack.callback(again.close)
        again.listen(addresses[1])
        with pytest.raises(ServerError, match="is not on this server") as caught:
            model.fetch_into(np.empty(9, np.float32))
    server, reason = blamed_server(caught.value, addresses[0])
    assert server == addresses[1]
    assert "address" not in reason


def test_updates_that_killed_servers_lost_are_counted(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        servers, addresses = [], []
        for name in ("run", "one"):
            servers.append(Server(data=str(tmp_path / name), shard_save_seconds=1e6))
            addresses.append(servers[-1].listen(f"unix:{tmp_path}/{name}-socket"))
        endpoint = Endpoint(addresses[0], "run", reconnect_seconds=60.0)
        for name, count, updates in (("model", 3, 5), ("model/vector-1", 3, 2), ("another", 1, 9)):
            model = stack.enter_context(contextlib.closing(open_shards(endpoint, name, count, count, addresses[1:])))
            model.open(OptimizerOptions("sgd", learning_rate=0.1), np.zeros(count, np.float32), fresh=True)
            model.fetch_into(np.empty(count, np.float32))
            for _ in range(updates):
                model.push(np.ones(count, np.float32))
        assert lost_updates(endpoint, "model", addresses[1:]) == 0
        shutil.copytree(tmp_path / "run", tmp_path / "killed")  # what a server that is killed now leaves
        for server in servers:
            server.close()
        shutil.copytree(tmp_path / "one", tmp_path / "ended")
        for name, address in zip(("killed", "ended"), addresses, strict=True):
            again = Server(data=str(tmp_path / name))
            stack.callback(again.close)
            again.listen(address)
        assert lost_updates(endpoint, "model", addresses[1:]) == 5 + 2
    with pytest.raises(StorageError, match="no server answers"):
        lost_updates(endpoint, "model", addresses[1:])


def test_an_error_without_a_server_is_attributed_to_the_runs_own() -> None:
    assert blamed_server(ClosedError("the table is closed"), "unix:a") == ("unix:a", "the table is closed")
