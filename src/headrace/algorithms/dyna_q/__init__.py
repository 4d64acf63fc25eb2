"""Deep Dyna-Q (Sutton 1990): DQN that learns from real and simulated experience."""

from headrace.algorithms.dyna_q.config import DynaQ

__all__ = ["DynaQ"]
