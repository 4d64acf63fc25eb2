"""Deep Q-learning (Mnih et al. 2015) with double, dueling, n-step and prioritized replay."""

from headrace.algorithms.dqn.config import DQN

__all__ = ["DQN"]
