"""A user's network: its parameters, and its ONNX graph, which no other process needs torch to use."""

import base64
import zlib
from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.networks.layout import Layout, Parameter
from headrace.types import EnvironmentSpec

if TYPE_CHECKING:
    import onnx

__all__ = ["OwnLayout", "OwnNetwork", "OwnParameter"]


@dataclass(frozen=True)
class OwnParameter:
    """A parameter of a user's module."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    """False where the module keeps it fixed (requires_grad)."""


@dataclass(frozen=True)
class OwnNetwork:
    """A policy's network whose module a user's function, `build`, returns: "package.module:function".

    It has `outputs` outputs, followed by tanh if `bounded`. The parameters are in the module's order. `graph` is the
    module's ONNX graph, in which these parameters are initializers without values: compressed, in base64.
    """

    build: str
    spec: EnvironmentSpec
    outputs: int
    bounded: bool
    parameters: tuple[OwnParameter, ...] = ()
    graph: str = ""

    @property
    def layout(self) -> "OwnLayout":
        """The parameters."""
        return OwnLayout.of(self)

    @property
    def model(self) -> "onnx.ModelProto":
        """The ONNX model without the parameters' values."""
        import onnx

        return onnx.load_model_from_string(zlib.decompress(base64.b64decode(self.graph)))

    @staticmethod
    def pack(model: "onnx.ModelProto") -> str:
        """The text of `graph` for a model."""
        return base64.b64encode(zlib.compress(model.SerializeToString())).decode()


class OwnLayout(Layout):
    """The parameters of a user's module, whose initial values are those that the module comes with."""

    _network: OwnNetwork

    @staticmethod
    def of(network: OwnNetwork) -> "OwnLayout":
        """The layout of a network's parameters."""
        layout = OwnLayout(tuple(_parameter(each) for each in network.parameters))
        layout._network = network
        return layout

    def initial(self, random: np.random.Generator) -> NDArray[np.float32]:
        """Initial values [P] of a new module, for which torch's random numbers are seeded; draws one number."""
        from headrace.networks.own_modules import initial_values

        return self.join(initial_values(self._network, int(random.integers(2**63))))


def _parameter(parameter: OwnParameter) -> Parameter:
    bound = 1 / sqrt(max(1, prod(parameter.shape[1:])))
    return Parameter(parameter.name, parameter.shape, -bound, bound)
