"""Algorithms: one folder each, and the update rules that they share in `targets`."""
