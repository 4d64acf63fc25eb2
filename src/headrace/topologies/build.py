"""Builds a topology's program from its settings."""

from headrace.errors import ConfigError
from headrace.topologies.apex import ApexProgram
from headrace.topologies.base import Program, Workshop
from headrace.topologies.config import Apex, Serial, Topology, Workers
from headrace.topologies.serial import SerialProgram
from headrace.topologies.workers import WorkersProgram

__all__ = ["build_program"]


def build_program(config: Topology, workshop: Workshop, *, generation: int = 0, pinned: bool = False) -> Program:
    """The program of a topology; `generation` counts resumptions, `pinned` requests page-locked batches.

    Raises ConfigError if the algorithm and the topology are incompatible.
    """
    if isinstance(config, Apex):
        return ApexProgram(config, workshop, generation, pinned)
    if isinstance(config, Serial):
        return SerialProgram(config, workshop)
    if workshop.algorithm.world_model is not None:
        raise ConfigError(
            f"algorithm is {workshop.algorithm.name}, and this topology's workers do not plan: topology apex or "
            "serial, or no planning, is required"
        )
    assert isinstance(config, Workers)
    return WorkersProgram(config, workshop, generation)
