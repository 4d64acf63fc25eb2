"""What the roles of a run and its training process tell each other as JSON; the gate has its own module."""

from typing import Any, TypedDict

from headrace.gradients.measured import GradientTotals
from headrace.parameters.refresh import RefreshFigures

__all__ = [
    "EVALUATION", "EVALUATION_POLICY", "REPORTS", "Acted", "Answer", "EvaluationRequest", "Figures", "Learned",
    "LearningTotals", "Planned", "Quantized", "Report",
]  # fmt: skip

REPORTS = "reports"
"""Mailbox of each Report, read by the training process."""
EVALUATION = "evaluation"
"""The EvaluationRequest that the evaluator answers next."""
EVALUATION_POLICY = "evaluation-policy"
"""The policy for this request."""


class Acted(TypedDict):
    """What has been done in environments: by a process since its start, or in a part of this time."""

    steps: int
    episodes: int
    seconds: dict[str, float]
    """By phase, ACTOR_PHASES."""
    returns: list[tuple[float, int, float]]
    """Undiscounted return, length and scale of exploration of each episode that has ended since the last report."""


class LearningTotals(GradientTotals):
    """Totals of a worker's updates since its process started."""

    updates: int
    seconds: dict[str, float]
    """By phase, LEARNER_PHASES."""
    samples: int
    """Transitions sampled from the worker's own table, and `inserts` those inserted into it; 0 without one."""
    inserts: int


class Learned(TypedDict):
    """What a worker has learned."""

    totals: LearningTotals
    loss: float | None
    """Of the last update; None before the first."""
    replay: dict[str, float]
    """Its own table's size, capacity and used_bytes; empty without a table."""
    diverged: str
    """How training diverged; empty if it has not."""


class Planned(TypedDict):
    """What a planner has done since its process started."""

    model_version: int
    model_error: float | None
    """None before the first measurement."""
    simulated: int
    """Transitions sent to the learner."""
    dropped: int
    """Simulations ended because the model's members disagreed."""
    gated: int
    """Steps left out because the model's error was above its limit."""


class Quantized(TypedDict):
    """What the quantizer has published."""

    version: int
    versions: int
    """How many it has published."""
    seconds: float
    """Spent on them."""
    bytes: int
    """Size of the last one."""
    parameter_bytes: int
    """Size of the parameters that it was made from."""
    error: dict[str, Any] | None
    """The newest measurement of a policy's error; None before the first."""


class Answer(TypedDict):
    """The undiscounted returns and lengths of the greedy episodes that a request asked for."""

    start: str
    request: int
    returns: list[float]
    lengths: list[int]


class Figures(TypedDict, total=False):
    """What a role can have to say: some of these."""

    run_id: str
    """The run of an actor or worker, which may outlive its training process."""
    writer: str
    """A name of the process whose totals follow."""
    acted: Acted
    learned: Learned
    refreshed: RefreshFigures
    planned: Planned
    quantized: Quantized
    answer: Answer


class Report(Figures):
    """What a role tells the training process; every report is a heartbeat too."""

    role: str
    index: int
    generation: int
    phase: str
    stalled_seconds: float
    """How long it has made no progress; 0 for a role that reports in the thread that works."""


class EvaluationRequest(TypedDict):
    """What the evaluator plays: greedy episodes with the policy under EVALUATION_POLICY."""

    start: str
    """Differs for every start of the training process; `request` counts from 1 in each."""
    request: int
    environment: str
    spec: dict[str, Any]
    algorithm: dict[str, Any]
    episodes: int
    seed: int
