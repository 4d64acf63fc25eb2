"""Sessions compute what ONNX Runtime computes with the whole graph."""

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
def test_parameters_as_arrays_give_the_same_outputs(precision: Precision, hidden: tuple[int, ...]) -> None:
    architecture = Architecture.of(EnvironmentSpec((8,), "float32", 4), "mlp", hidden)
    random = np.random.default_rng(0)
    graph = PolicyGraph(architecture, precision).serialize(
        architecture.layout.views(architecture.layout.initial(random))
    )
    inputs = {INPUT: random.standard_normal((5, 8), np.float32)}
    expected = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    np.testing.assert_array_equal(open_session(graph).run(None, inputs)[0], expected)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="a field"):
        open_session(b"not a graph")
