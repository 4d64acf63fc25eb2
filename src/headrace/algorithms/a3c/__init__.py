"""On-policy advantage actor-critic (Mnih et al. 2016)."""

from headrace.algorithms.a3c.config import A3C

__all__ = ["A3C"]
