"""Advantage actor-critic on what the policy has just done (Mnih et al. 2016)."""

from headrace.algorithms.a3c.config import A3C

__all__ = ["A3C"]
