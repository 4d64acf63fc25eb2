"""Opens what an updater learns: parameter vectors, and the networks over them."""

from typing import Literal

import numpy as np

from headrace._native import OptimizerOptions
from headrace.algorithms.engine import open_network, open_normalized_network
from headrace.algorithms.learned import Target
from headrace.errors import CheckpointError
from headrace.gradients.base import OpenVector, ParameterVector
from headrace.gradients.local import LocalVector
from headrace.networks.base import Description, Network, NormalizedNetwork
from headrace.networks.layout import Layout
from headrace.networks.normalized_streams import NormalizedStreams

__all__ = ["NetworkOpener"]


class NetworkOpener:
    """Opens the vectors of one updater and the networks over them; the first vector is the one that counts its updates.

    `engine` computes the networks. Without `open_vector` the vectors belong to this process: with the native optimizer
    on the CPU, with torch's on a GPU. Initial values are drawn from `random`, in the order of the calls; an updater may
    draw its noise from it afterwards.
    """

    def __init__(
        self,
        engine: Literal["native", "torch"],
        device: str,
        open_vector: OpenVector | None,
        random: np.random.Generator,
    ) -> None:
        self._engine = engine
        self._open_vector = open_vector or _local_vectors(device)
        self.random = random

    def vector(self, layout: Layout, options: OptimizerOptions) -> ParameterVector:
        """A vector with random initial values; raises CheckpointError if an existing one has another size."""
        vector = self._open_vector(layout.initial(self.random), options)
        if len(vector.parameters) != layout.size:
            raise CheckpointError(
                f"the model that workers share has {len(vector.parameters)} parameters, and these settings make "
                f"{layout.size}: the same settings for all are required"
            )
        return vector

    def learned(self, description: Description, options: OptimizerOptions) -> tuple[ParameterVector, Network]:
        """The vector of a network's parameters, and the network, which writes its gradient there."""
        vector = self.vector(description.layout, options)
        return vector, open_network(self._engine, description, vector.parameters, vector.gradient)

    def normalized(
        self, description: NormalizedStreams, parameters: ParameterVector, statistics: ParameterVector
    ) -> NormalizedNetwork:
        """A network over vectors of its parameters and of its running statistics."""
        return open_normalized_network(self._engine, description, parameters, statistics)

    def target(self, description: Description, vector: ParameterVector) -> tuple[Target, Network]:
        """A copy of the parameters of such a network, and a network over the copy."""
        target = Target.of(description.layout, vector.parameters)
        return target, open_network(self._engine, description, target.vector)


def _local_vectors(device: str) -> OpenVector:
    if device == "cpu":
        return LocalVector
    from headrace.gradients.device import DeviceVector

    return lambda initial, options: DeviceVector(initial, options, device)
