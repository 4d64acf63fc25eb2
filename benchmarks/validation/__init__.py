"""Simulated runs against real ones: speed, and steps to a score, of several topologies with many seeds."""
