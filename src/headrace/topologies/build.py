"""From a topology's settings to its program."""

from headrace.topologies.apex import ApexProgram
from headrace.topologies.base import Program, Workshop
from headrace.topologies.config import Apex, Topology
from headrace.topologies.serial import SerialProgram

__all__ = ["build_program"]


def build_program(config: Topology, workshop: Workshop, *, generation: int = 0, pinned: bool = False) -> Program:
    """The program of a topology; `generation` counts resumptions, `pinned` asks for page-locked batches."""
    if isinstance(config, Apex):
        return ApexProgram(config, workshop, generation, pinned)
    return SerialProgram(config, workshop)
