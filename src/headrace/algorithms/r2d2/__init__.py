"""R2D2 (Kapturowski et al. 2019): deep Q-learning with a recurrent network, from replayed windows of episodes."""

from headrace.algorithms.r2d2.config import R2D2

__all__ = ["R2D2"]
