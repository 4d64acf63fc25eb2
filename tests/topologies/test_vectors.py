"""A run's shared parameters on servers after its end."""

import contextlib
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.algorithms.a3c.config import A3C
from headrace.errors import ConfigError, ServerError
from headrace.gradients.base import ParameterVector
from headrace.gradients.measured import MeasuredVector
from headrace.servers import Endpoint, open_server
from headrace.topologies.base import SharedVectors
from headrace.topologies.workers import AdPsgd, ParameterServer


def test_a_run_that_ends_leaves_no_shards_on_further_servers() -> None:
    own, further = Server(), Server()
    endpoint = Endpoint(own.listen("unix:@"), "run")
    config = ParameterServer(workers=1, shards=3, shard_servers=(further.listen("unix:@"),))
    runs = [config.open_vectors(A3C(), endpoint, run_id) for run_id in ("first", "second")]
    for vectors in runs:
        assert vectors is not None
        vectors(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    first, second = further.stats()["shards"]
    assert re.fullmatch(r"run/model-first/\w+/1", first)
    assert re.fullmatch(r"run/model-second/\w+/1", second)
    assert runs[0] is not None
    runs[0].close()
    assert list(further.stats()["shards"]) == [second]
    own.close()
    further.close()
    assert runs[1] is not None
    runs[1].close()  # no server answers


@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
def test_workers_of_an_earlier_start_cannot_change_the_parameters(tmp_path: Path, further: bool, fresh: bool) -> None:
    optimizer, count = OptimizerOptions("sgd"), 1 + further
    with contextlib.ExitStack() as ends:
        folders = [tmp_path / str(number) for number in range(count)]
        servers = [ends.enter_context(contextlib.closing(Server(data=str(folder)))) for folder in folders]
        endpoint, *others = (Endpoint(server.listen("unix:@"), "run") for server in servers)
        config = ParameterServer(workers=1, shards=count, shard_servers=tuple(each.address for each in others))

        def start(fresh: bool) -> tuple[SharedVectors, list[ParameterVector], list[MeasuredVector]]:
            """One start of the run, which is then killed; its workers are not."""
            with contextlib.closing(open_server(endpoint, "a1")) as server:
                vectors = config.open_vectors(A3C(), endpoint, "a1", partial(server.begin, fresh=fresh))
                assert vectors is not None
                ends.callback(vectors.close)
                values = np.zeros(2, np.float32)
                opened = [vectors(values, optimizer) for _ in range(2)]
                workers = [handle.open(values, optimizer, endpoint, 0, 0) for handle in vectors.handles]
            return vectors, opened, [ends.enter_context(contextlib.closing(worker)) for worker in workers]

        earlier, _, late = start(True)
        _, opened, workers = start(fresh)
        assert [len(server.stats()["shards"]) for server in servers] == [2] * count  # only those of this start
        assert [len(list(folder.glob("shard-*"))) for folder in folders] == [2] * count
        for worker in late:
            worker.gradient[:] = 1.0
            with pytest.raises(ServerError, match="is not on this server"):
                worker.apply()
        earlier.close()  # as a learner does that had lost its connection
        for vector, worker in zip(opened, workers, strict=True):
            assert (vector.pull(), vector.parameters.tolist()) == (0, [0.0, 0.0])
            assert worker.apply() == (1, 0, True)


def test_a_server_without_shards_is_refused_before_further_servers_are_asked() -> None:
    config = ParameterServer(workers=1, shards=2, shard_servers=("unix:@no-such-server",))
    vectors = config.open_vectors(A3C(), Endpoint("redis://host:1"))
    assert vectors is not None
    with pytest.raises(ConfigError, match=r"^server is redis://host:1; shards"):
        vectors(np.zeros(2, np.float32), OptimizerOptions("sgd"))


def test_what_an_earlier_run_left_is_dropped_only_if_the_shards_fit() -> None:
    begun: list[bool] = []
    with contextlib.closing(Server()) as server:
        endpoint = Endpoint(server.listen("unix:@"))
        for shards, expected in ((3, []), (2, [True])):
            config = ParameterServer(workers=1, shards=shards)
            vectors = config.open_vectors(A3C(), endpoint, begin=lambda: begun.append(True))
            assert vectors is not None
            with contextlib.closing(vectors):
                if shards == 3:
                    with pytest.raises(ConfigError, match="1 to 2 required"):
                        vectors(np.zeros(2, np.float32), OptimizerOptions("sgd"))
                else:
                    vectors(np.zeros(2, np.float32), OptimizerOptions("sgd"))
            assert begun == expected


def test_shards_are_dropped_from_further_servers_if_another_one_refuses() -> None:
    with contextlib.ExitStack() as ends:
        own, further, full = (
            ends.enter_context(contextlib.closing(Server(memory_bytes=size))) for size in (10**9, 10**9, 10_000)
        )
        endpoint = Endpoint(own.listen("unix:@"))
        addresses = (further.listen("unix:@"), full.listen("unix:@"))
        vectors = ParameterServer(workers=1, shards=3, shard_servers=addresses).open_vectors(A3C(), endpoint)
        assert vectors is not None
        with pytest.raises(ServerError, match="memory"):
            vectors(np.zeros(30_000, np.float32), OptimizerOptions("sgd"))
        assert len(further.stats()["shards"]) == 1
        vectors.close()
        assert further.stats()["shards"] == {}


def test_the_connections_of_all_vectors_are_counted() -> None:
    with contextlib.closing(Server()) as server:
        config = ParameterServer(workers=31, shards=100)
        vectors = config.open_vectors(A3C(), Endpoint(server.listen("unix:@")))
        assert vectors is not None
        with contextlib.closing(vectors):
            vectors(np.zeros(200, np.float32), OptimizerOptions("sgd"))
            with pytest.raises(ConfigError, match=r"that 32 processes .* of each of 2 vectors"):
                vectors(np.zeros(200, np.float32), OptimizerOptions("sgd"))


def test_workers_get_the_options_of_the_topology() -> None:
    server = Server()
    endpoint = Endpoint(server.listen("unix:@"), "run")
    vectors = ParameterServer(workers=1, fetch_period=2, local_updates=True).open_vectors(A3C(), endpoint)
    assert vectors is not None
    optimizer = OptimizerOptions("sgd", learning_rate=0.5)
    vectors(np.ones(1, np.float32), optimizer)
    worker = vectors.handles[0].open(np.ones(1, np.float32), optimizer, endpoint, 0, 0)
    worker.gradient[:] = 4.0
    worker.apply()
    assert worker.parameters.tolist() == [-1.0]  # 1 - 0.5 * 4
    worker.close()
    vectors.close()
    server.close()


def test_lost_updates_are_asked_for_after_a_connection_was_lost(tmp_path: Path) -> None:
    server = Server(data=str(tmp_path / "data"), shard_save_seconds=1e6)
    endpoint = Endpoint(server.listen(f"unix:{tmp_path / 'socket'}"), "run", reconnect_seconds=60.0)
    vectors = ParameterServer(workers=1).open_vectors(A3C(), endpoint)
    assert vectors is not None
    vector = vectors(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    for _ in range(4):
        vector.apply()
    assert vectors.updates_lost == 0
    shutil.copytree(tmp_path / "data", tmp_path / "killed")  # what a server that is killed now leaves
    server.close()
    with contextlib.closing(vectors):
        for _ in range(2):
            again = Server(data=str(tmp_path / "killed"))
            again.listen(endpoint.address)
            vector.pull()
            again.close()
            del again  # which releases the directory
        assert vectors.updates_lost == 0  # no server answers
        with contextlib.closing(Server(data=str(tmp_path / "killed"))) as last:
            last.listen(endpoint.address)
            assert vectors.updates_lost == 4


@pytest.mark.parametrize("opened", [False, True])
def test_close_before_opening_has_no_effect(opened: bool) -> None:
    server = Server()
    vectors = ParameterServer(workers=1).open_vectors(A3C(), Endpoint(server.listen("unix:@")))
    assert vectors is not None
    if opened:
        vectors(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    vectors.close()
    server.close()


def test_a_penalty_is_one_of_networks_parameters() -> None:
    vectors = AdPsgd(workers=1, l1_penalty=1.0).open_vectors(A3C(), Endpoint(""))
    assert vectors is not None
    for count, after in ((1, 1.0), (2, 0.5)):  # SAC's temperature is a vector of one number
        vectors(np.ones(count, np.float32), OptimizerOptions("sgd", learning_rate=0.5))
        opened = vectors.handles[-1].open(np.ones(count, np.float32), OptimizerOptions("sgd"), Endpoint(""), 0, 0)
        opened.apply()
        opened.pull()
        assert opened.parameters.tolist() == [after] * count
    with pytest.raises(ConfigError, match=r"^l1_penalty is -1; it must be 0 or more"):
        AdPsgd(l1_penalty=-1)
