"""CrossQ: soft actor-critic with batch-normalized critics and no target networks (Bhatt et al. 2024)."""

from headrace.algorithms.crossq.config import CrossQ

__all__ = ["CrossQ"]
