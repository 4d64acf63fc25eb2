"""Builds a topology's program from its settings."""

from headrace.errors import ConfigError
from headrace.topologies.apex import ApexProgram
from headrace.topologies.base import Program, RunContext
from headrace.topologies.config import Apex, Serial, Topology, Workers
from headrace.topologies.serial import SerialProgram
from headrace.topologies.workers import WorkersProgram

__all__ = ["build_program"]


def build_program(config: Topology, context: RunContext, *, generation: int = 0, pinned: bool = False) -> Program:
    """The program of a topology; `generation` counts resumptions, `pinned` requests page-locked batches.

    Raises ConfigError if the topology can't act with the algorithm's networks.
    """
    if isinstance(config, Apex):
        return ApexProgram(config, context, generation, pinned)
    if isinstance(config, Serial):
        return SerialProgram(config, context)
    if context.updater.architecture.recurrent:
        raise ConfigError(
            f"algorithm is {context.algorithm.name}, and topology is {config.name}, whose workers do not act with a "
            "recurrent policy: topology apex or serial is required"
        )
    assert isinstance(config, Workers)
    return WorkersProgram(config, context, generation)
