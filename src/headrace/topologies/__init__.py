"""Topologies: which roles a run has and how they are wired, whatever runs them."""

from headrace.topologies.config import Apex, Serial, Topology

__all__ = ["Apex", "Serial", "Topology"]
