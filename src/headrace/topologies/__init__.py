"""Topologies: which roles a run has and how they are connected, independent of the launcher. A folder each."""
