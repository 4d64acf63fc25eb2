"""Snapshots of a run, for the display and metrics.jsonl."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.roles.clock import ACTOR_PHASES, LEARNER_PHASES
from headrace.types import ActingKind

__all__ = ["ACTOR_TIMES", "LEARNER_TIMES", "Progress", "style_times"]

ACTOR_TIMES = ACTOR_PHASES
LEARNER_TIMES = ("train", *(phase for phase in LEARNER_PHASES if phase != "train"))
"""Phases of the learner's time, in the order of all reports."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The state of a run; rates and shares are those of the interval since the previous snapshot."""

    seconds: float
    """Training clock, which is paused during evaluations."""
    environment_steps: int
    learner_steps: int
    episodes: int
    mean_return: float | None
    """Mean over the last 100 training episodes."""
    near_greedy_return: float | None
    """Mean over the last episodes of the least exploring environments."""
    evaluation_return: float | None
    """Mean of the last evaluation."""
    best_evaluation: float | None
    steps_per_second: float
    learner_steps_per_second: float
    samples_per_insert: float | None
    staleness: float | None
    """Mean number of updates by which the acting policy lags behind the learner's."""
    loss: float | None
    replay_size: int
    replay_capacity: int
    replay_bytes: int
    policy_version: int
    bottleneck: str | None
    """The bottleneck: actors or learner; balanced if neither waits for the other. Workers are both."""
    actor_times: Mapping[str, float] = field(default_factory=dict)
    """Share of the actors' time in each of ACTOR_TIMES."""
    learner_times: Mapping[str, float] = field(default_factory=dict)
    """Share of the learner's time in each of LEARNER_TIMES."""
    actors_alive: int
    actors_total: int
    role: ActingKind = "actor"
    """Kind of the roles that act. Workers also learn, so the times of both sides are theirs."""
    paused: bool = False
    """Whether an evaluation is running; the training clock stands still in it if it holds training."""
    steps_target: int | None = None
    time_target: float | None = None
    """Seconds of the training clock."""
    score_target: float | None = None

    def to_record(self) -> dict[str, Any]:
        """The snapshot as a record of metrics.jsonl."""
        return {"kind": "progress", **asdict(self)}


def style_times(styles: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """A style for each of ACTOR_TIMES or LEARNER_TIMES; the last name of both, "other", has the last style."""
    return *styles[: len(names) - 1], styles[-1]
