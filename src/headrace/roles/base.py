"""Names that roles share on the server, the record that starts a role, and the contract of workers."""

import threading
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.environments import Episode
from headrace.roles.clock import PhaseClock

__all__ = [
    "EVALUATION",
    "EVALUATION_POLICY",
    "GATE",
    "HELD",
    "NEWS",
    "PARAMETERS",
    "POLICY",
    "REPORTS",
    "RUN",
    "SIMULATED",
    "TABLE",
    "TRANSITIONS",
    "Learning",
    "Role",
    "Stop",
    "Worker",
]

TABLE = "replay"
"""The table of experience."""
TRANSITIONS = "transitions"
"""The table of one-step transitions from which planners learn a world model."""
SIMULATED = "simulated"
"""The table of simulated transitions from planners."""
POLICY = "policy"
"""The newest policy, as actors install it."""
NEWS = "policy-news"
"""When the learner had the policy; published after it with the same version. Polling this transfers no policy."""
PARAMETERS = "parameters"
"""The learner's newest parameters in full precision, for the quantizer."""
EVALUATION = "evaluation"
"""The request that the evaluator answers next."""
EVALUATION_POLICY = "evaluation-policy"
"""The policy for this request."""
REPORTS = "reports"
"""Mailbox of JSON records, read by the training process."""

GATE = "gate"
"""A Gate: whether workers may continue, and the environment steps of all workers so far."""
HELD = "held"
"""Mailbox in which workers confirm that they are paused at the gate."""
RUN = "run"
"""A RunNotice for separately started actors; empty after the run has ended."""

Stop = threading.Event


@dataclass(frozen=True)
class Role:
    """One role of a program: what runs, independent of where."""

    kind: str  # "actor", "worker", "evaluator", "quantizer", "planner" or "separate-actor"
    index: int
    settings: str  # JSON
    generation: int = 0
    """Increases with every start, so that a restarted actor does not repeat episodes."""

    @property
    def name(self) -> str:
        """Name for logs and messages, such as "actor 0"."""
        return f"{self.kind} {self.index}"


class Learning(Protocol):
    """Learner statistics, aggregated over all workers; one thread writes them, others may read them."""

    steps: int
    """Number of updates."""
    loss: float
    """Loss of the last update."""
    staleness: float
    """Mean number of updates between the policy that chose a batch's actions and the policy that learns from it. For
    workers that share parameters: updates between reading the parameters and applying the gradient."""
    clock: PhaseClock
    """A clock with LEARNER_PHASES."""

    @property
    def version(self) -> int:
        """Version of the last published policy."""

    def publish(self) -> None:
        """Publishes the current policy and waits until it is published."""


class Worker(Protocol):
    """Acts and learns in turn. One thread."""

    steps: int
    """Number of environment steps."""
    clock: PhaseClock
    """A clock with ACTOR_PHASES, paused while the worker learns."""

    @property
    def learner(self) -> Learning:
        """The learning side; its clock is paused while the worker acts."""

    @property
    def count(self) -> int:
        """E, the number of environments."""

    def step(self) -> None:
        """One turn: a few environment steps, then the updates that they allow."""

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from both clocks."""

    def state(self) -> dict[str, Any]:
        """JSON-able state that, with parameters and replay, resumes the worker at the same place."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned, before the first step."""

    def close(self) -> None:
        """Closes the environments."""
