"""The policy as actors and evaluators run it: an ONNX graph, replaced when a newer one is published."""

import json

import numpy as np
from numpy.typing import NDArray

from headrace.fields import read_fields
from headrace.networks.graph_names import INPUT, PARTS, STATE
from headrace.networks.records import split
from headrace.networks.session import open_session
from headrace.types import Array, Part

__all__ = ["Policy"]


class Policy:
    """Runs the newest graph passed to load(); one thread. Inference uses one processor core.

    A policy may be created in a different thread from its user's; creation does not hold Python's lock for long.
    """

    def __init__(self, graph: bytes, version: int) -> None:
        self.load(graph, version)

    def load(self, graph: bytes, version: int) -> None:
        """Creates a session of the graph and uses it from now on."""
        self._session = open_session(graph)
        parts = self._session.get_modelmeta().custom_metadata_map.get(PARTS, "[]")
        self._parts = tuple(read_fields(Part, record) for record in json.loads(parts))
        self.version = version
        sizes = {each.name: each.shape[-1] for each in self._session.get_inputs()}
        self.state_size: int = sizes.get(STATE, 0)
        """S, the numbers of an environment's state; 0 if the policy is not recurrent."""

    def output(self, observation: Array) -> NDArray[np.float32]:
        """Q values, or actions in [-1, 1], [B, A] of observations [B, *input]."""
        values: NDArray[np.float32] = self._session.run(None, self._inputs(observation))[0]
        return values

    def advance(
        self, observation: Array, state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Outputs [B, A] and next states [B, S] of observations [B, *input] and states [B, S]."""
        if not self.state_size:
            return self.output(observation), state
        values, following = self._session.run(None, {**self._inputs(observation), STATE: state})
        return values, following

    def _inputs(self, observation: Array) -> dict[str, Array]:
        return split(observation, self._parts) if self._parts else {INPUT: observation}
