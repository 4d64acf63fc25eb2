"""What a run to a score comes to, and the protocol by which it is judged."""

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
"""Where as many last training episodes average the score, an evaluation comes before its time, ..."""
HINT_SECONDS = 3.0
"""... but no sooner than this after the last."""
CONFIRMATION_EPISODES = 100
FRESH_SEED = 1_000_003
"""Plus the run's own: the seed of episodes that decide nothing."""


class Outcome(NamedTuple):
    """What came of a run; seconds are those of training, evaluations excluded."""

    seconds_to_score: float | None
    environment_steps: int
    mean_return: float
    """Of the 100 episodes that decided, or of 100 at the time limit."""
    fresh_mean: float
    """Of 100 episodes that had no part in the decision to stop."""
    settings: str
