"""Names that the roles share on the server, what starts a role anywhere, and the contract of workers."""

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
"""The table that experience goes to."""
TRANSITIONS = "transitions"
"""The table of one-step transitions that planners learn a world model from."""
SIMULATED = "simulated"
"""The table of what planners simulate."""
POLICY = "policy"
"""The newest policy for actors, as they install it."""
NEWS = "policy-news"
"""Under the policy's version and after it, when the learner had it: who asks for this moves no policy."""
PARAMETERS = "parameters"
"""The learner's newest parameters in full precision, for the quantizer."""
EVALUATION = "evaluation"
"""The request that the evaluator answers next."""
EVALUATION_POLICY = "evaluation-policy"
"""The policy that this request is about."""
REPORTS = "reports"
"""Mailbox of JSON records, read by the training process."""

GATE = "gate"
"""Whether workers may go on, and the environment steps of all so far: a Gate."""
HELD = "held"
"""Mailbox of workers that stand still, as the gate asked them to."""
RUN = "run"
"""What actors that start apart need to know, a RunNotice; empty where the run has ended."""

Stop = threading.Event


@dataclass(frozen=True)
class Role:
    """One role of a program: what runs, apart from where."""

    kind: str  # "actor", "worker", "evaluator", "quantizer", "planner" or "volunteer"
    index: int
    settings: str  # JSON
    generation: int = 0
    """Rises with every start, so that an actor that is started again does not play the same episodes."""

    @property
    def name(self) -> str:
        """For logs and messages: "actor 0"."""
        return f"{self.kind} {self.index}"


class Learning(Protocol):
    """What is seen of those who learn, together; written by one thread, read by others too."""

    steps: int
    """Updates."""
    loss: float
    """Of the last update."""
    staleness: float
    """Updates between the policy that chose a batch's actions and the one that learns from it, on average; of workers
    that share parameters, those between reading the parameters and applying the gradient."""
    clock: PhaseClock
    """LEARNER_PHASES."""

    @property
    def version(self) -> int:
        """Of the policy that was published last."""

    def publish(self) -> None:
        """Publishes the present policy, and waits until it is."""


class Worker(Protocol):
    """Acts and learns in turn. One thread."""

    steps: int
    """Environment steps."""
    clock: PhaseClock
    """ACTOR_PHASES; stands still while it learns."""

    @property
    def learner(self) -> Learning:
        """Its learning side, whose clock stands still while it acts."""

    @property
    def count(self) -> int:
        """E."""

    def step(self) -> None:
        """One turn: it acts for a little, and learns from what it has."""

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""

    def skip(self, seconds: float) -> None:
        """Both clocks leave these out."""

    def state(self) -> dict[str, Any]:
        """What resumes it at the same place beside parameters and replay, JSON-able."""

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to it, before the first step."""

    def close(self) -> None:
        """Closes the environments."""
