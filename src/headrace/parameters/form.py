"""The form in which a policy is sent to actors: a graph that they install, or packed parameters to build one from."""

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.networks import Architecture
from headrace.networks.precision import Precision
from headrace.parameters.packing import pack, unpack
from headrace.types import Array

if TYPE_CHECKING:
    from headrace.networks.policy_graph import PolicyGraph

__all__ = ["PolicyDecoder", "PolicyEncoder"]

_LENGTH = struct.Struct("<I")


class PolicyEncoder:
    """Encodes float32 parameters: as a graph of the precision, or below 32 bits as packed parameters."""

    def __init__(self, architecture: Architecture, precision: Precision, bits: int) -> None:
        from headrace.networks.policy_graph import PolicyGraph

        self._bits = bits
        self._graph = PolicyGraph(architecture, precision)
        header = json.dumps(architecture.to_record()).encode()
        self._header = _LENGTH.pack(len(header)) + header

    def encode(self, weights: Mapping[str, Array]) -> bytes:
        """Returns the bytes that decode() reads."""
        if self._bits == 32:
            return self._graph.serialize(weights)
        return self._header + pack(weights, self._bits)


class PolicyDecoder:
    """Decodes received bytes to a graph of the precision. One thread."""

    def __init__(self, precision: Precision, bits: int) -> None:
        self._precision = precision
        self._bits = bits
        self._header = b""
        self._graph: PolicyGraph | None = None

    def decode(self, data: bytes) -> bytes:
        """The graph of what encode() returned."""
        if self._bits == 32:
            return data
        begin = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        header = data[_LENGTH.size : begin]
        if self._graph is None or header != self._header:
            from headrace.networks.policy_graph import PolicyGraph

            self._header = header
            self._graph = PolicyGraph(Architecture.from_record(json.loads(header)), self._precision)
        return self._graph.serialize(unpack(memoryview(data)[begin:]))
