"""Topologies: which roles a run has and how they are connected, independent of the launcher."""

from headrace.topologies.config import AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial, Topology

__all__ = ["AdPsgd", "Apex", "Hogwild", "Lock", "ParameterServer", "Serial", "Topology"]
