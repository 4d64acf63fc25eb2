"""The outcome of a run to a score, and the protocol that judges it."""

from typing import NamedTuple

__all__ = [
    "CONFIRMATION_EPISODES",
    "EVALUATION_PERIOD_SECONDS",
    "FRESH_SEED",
    "HINT_EPISODES",
    "HINT_SECONDS",
    "PERIODIC_EPISODES",
    "Outcome",
]

EVALUATION_PERIOD_SECONDS = 10.0
PERIODIC_EPISODES = 10
HINT_EPISODES = 20
"""If this many last training episodes average the score, an evaluation is made early, ..."""
HINT_SECONDS = 3.0
"""... but not earlier than this after the previous one."""
CONFIRMATION_EPISODES = 100
FRESH_SEED = 1_000_003
"""Plus the run's seed: the seed of episodes that have no part in the decision to stop."""


class Outcome(NamedTuple):
    """The outcome of a run; seconds are training time without evaluations."""

    seconds_to_score: float | None
    environment_steps: int
    mean_return: float
    """Mean of the 100 episodes that decided, or of 100 at the time limit."""
    fresh_mean: float
    """Mean of 100 episodes that had no part in the decision to stop."""
    settings: str
