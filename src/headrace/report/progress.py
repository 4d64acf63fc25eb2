"""One snapshot of a run: what the display shows and metrics.jsonl keeps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ACTOR_TIMES", "LEARNER_TIMES", "Progress"]

ACTOR_TIMES = ("environment", "inference", "pull", "load", "push", "other")
"""What an actor's time goes to, in the order in which every report shows it."""
LEARNER_TIMES = ("train", "wait", "transfer", "priorities", "publish", "other")
"""What the learner's time goes to, in the order in which every report shows it."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A run at one moment; rates and shares are those of the interval since the snapshot before."""

    seconds: float
    """Training clock, which stands still during evaluations."""
    environment_steps: int
    learner_steps: int
    episodes: int
    mean_return: float | None
    """Of the last 100 training episodes."""
    near_greedy_return: float | None
    """Of the last episodes of the least exploring environments."""
    evaluation_return: float | None
    """Mean of the last evaluation."""
    best_evaluation: float | None
    steps_per_second: float
    learner_steps_per_second: float
    samples_per_insert: float | None
    staleness: float | None
    """Mean number of updates by which the policy that acted is behind the one that learns."""
    loss: float | None
    replay_size: int
    replay_capacity: int
    replay_bytes: int
    policy_version: int
    bottleneck: str | None
    """The side that holds the run: actors or learner; balanced where neither waits for the other. Workers are both."""
    actor_times: Mapping[str, float] = field(default_factory=dict)
    """Share of the actors' time in each of ACTOR_TIMES."""
    learner_times: Mapping[str, float] = field(default_factory=dict)
    """Share of the learner's time in each of LEARNER_TIMES."""
    actors_alive: int
    actors_total: int
    role: str = "actor"
    """What those are called that act: workers learn too, so that the times of both sides are theirs."""
    paused: bool = False
    """An evaluation is running and the training clock stands still."""
    steps_target: int | None = None
    time_target: float | None = None
    """Seconds of the training clock."""
    score_target: float | None = None

    def to_record(self) -> dict[str, Any]:
        """The snapshot as a record of metrics.jsonl."""
        return {"kind": "progress", **asdict(self)}
