"""Topologies: which roles a run has and how they are wired, whatever runs them."""

from headrace.topologies.config import AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial, Topology

__all__ = ["AdPsgd", "Apex", "Hogwild", "Lock", "ParameterServer", "Serial", "Topology"]
