"""Headrace's benchmarks: speed against peers and limits, and time to a score."""
