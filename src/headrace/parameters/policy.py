"""The policy as actors and evaluators run it: an ONNX graph that is replaced when a newer one is published."""

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from headrace.parameters.base import ParameterStore
from headrace.types import Array

__all__ = ["Policy"]


class Policy:
    """Q values from the newest graph that load() was given; one thread. Inference takes one processor core."""

    def __init__(self, graph: bytes, version: int) -> None:
        self.load(graph, version)

    def load(self, graph: bytes, version: int) -> None:
        """Makes a session of the graph and takes it into use."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        self.version = version

    def newer(self, store: ParameterStore, name: str) -> tuple[int, bytes] | None:
        """The published graph if it is newer than this one, for load(): pulling and loading are timed apart."""
        return store.fetch(name, self.version)

    def q(self, observation: Array) -> NDArray[np.float32]:
        """Q values [B, A] of observations [B, *input]."""
        values: NDArray[np.float32] = self._session.run(None, {self._input: observation})[0]
        return values
