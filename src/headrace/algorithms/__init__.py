"""Algorithms: one folder each, with shared update rules in `targets`."""
