"""Twin delayed deterministic policy gradient: twin critics, smoothed targets, delayed policy (Fujimoto et al. 2018)."""

from headrace.algorithms.td3.config import TD3

__all__ = ["TD3"]
