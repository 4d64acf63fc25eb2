"""A run's shared parameters on servers after its end."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.algorithms.a3c.config import A3C
from headrace.servers import Endpoint
from headrace.topologies.config import ParameterServer
from headrace.topologies.parameters import open_parameters


def test_a_run_that_ends_leaves_no_shards_on_further_servers() -> None:
    own, further = Server(), Server()
    endpoint = Endpoint(own.listen("unix:@"), "run")
    config = ParameterServer(workers=1, shards=3, shard_servers=(further.listen("unix:@"),))
    runs = [open_parameters(config, A3C(), endpoint, run_id) for run_id in ("first", "second")]
    for parameters in runs:
        assert parameters is not None
        parameters(np.zeros(5, np.float32), OptimizerOptions("sgd"))
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
    parameters = open_parameters(ParameterServer(workers=1), A3C(), Endpoint(server.listen("unix:@")))
    assert parameters is not None
    if opened:
        parameters(np.zeros(5, np.float32), OptimizerOptions("sgd"))
    parameters.close()
    server.close()
