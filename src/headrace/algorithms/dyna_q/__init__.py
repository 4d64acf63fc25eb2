"""Deep Dyna-Q (Sutton 1990): DQN that learns from a world model's experience beside its own."""

from headrace.algorithms.dyna_q.config import DynaQ

__all__ = ["DynaQ"]
