"""A run's parameters in shards of several servers."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.errors import ClosedError, ServerError
from headrace.servers import Endpoint, blamed_server, open_shards


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


def test_an_error_without_a_server_is_attributed_to_the_runs_own() -> None:
    assert blamed_server(ClosedError("the table is closed"), "unix:a") == ("unix:a", "the table is closed")
