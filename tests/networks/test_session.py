"""Sessions compute what ONNX Runtime computes with the whole graph, and need nothing but themselves."""

import gc

import numpy as np
import onnxruntime
import pytest

from headrace.networks import Architecture
from headrace.networks.graph_names import INPUT
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.networks.session import open_session
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize("hidden", [(16,), (300, 200)])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_the_graph_may_be_gone(precision: Precision, hidden: tuple[int, ...]) -> None:
    architecture = Architecture.of(EnvironmentSpec((8,), "float32", 4), "mlp", hidden)
    random = np.random.default_rng(0)
    graph = PolicyGraph(architecture, precision).serialize(
        architecture.layout.views(architecture.layout.initial(random))
    )
    inputs = {INPUT: random.standard_normal((5, 8), np.float32)}
    expected = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    session = open_session(graph)
    del graph
    gc.collect()
    others = [np.full(60_000, np.nan, np.float32) for _ in range(50)]  # where memory was freed
    np.testing.assert_array_equal(session.run(None, inputs)[0], expected)
    del others


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="a field"):
        open_session(b"not a graph")
