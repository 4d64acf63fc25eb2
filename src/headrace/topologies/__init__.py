"""Topologies: which roles a run has and how they are connected, independent of the launcher."""

from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES

__all__ = ["TOPOLOGIES", "Topology"]
