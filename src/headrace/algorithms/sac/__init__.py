"""Soft actor-critic: squashed Gaussian policy, twin critics, learned temperature (Haarnoja et al. 2018)."""

from headrace.algorithms.sac.config import SAC

__all__ = ["SAC"]
