"""A run's shared parameters on servers after its end."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.algorithms.a3c.config import A3C
from headrace.servers import Endpoint
from headrace.topologies.config import ParameterServer
from headrace.topologies.vectors import open_vectors


def test_a_run_that_ends_leaves_no_shards_on_further_servers() -> None:
    own, further = Server(), Server()
    endpoint = Endpoint(own.listen("unix:@"), "run")
    config = ParameterServer(workers=1, shards=3, shard_servers=(further.listen("unix:@"),))
    runs = [open_vectors(config, A3C(), endpoint, run_id) for run_id in ("first", "second")]
    for vectors in runs:
        assert vectors is not None
        vectors(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    assert list(further.stats()["shards"]) == ["run/model-first/1", "run/model-second/1"]
    assert runs[0] is not None
    runs[0].close()
    assert list(further.stats()["shards"]) == ["run/model-second/1"]
    own.close()
    further.close()
    assert runs[1] is not None
    runs[1].close()  # no server answers


@pytest.mark.parametrize("opened", [False, True])
def test_close_before_opening_has_no_effect(opened: bool) -> None:
    server = Server()
    vectors = open_vectors(ParameterServer(workers=1), A3C(), Endpoint(server.listen("unix:@")))
    assert vectors is not None
    if opened:
        vectors(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    vectors.close()
    server.close()
