"""Names that the roles share on the server, and what starts a role anywhere."""

import threading
from dataclasses import dataclass

__all__ = ["EVALUATION", "EVALUATION_POLICY", "NEWS", "PARAMETERS", "POLICY", "REPORTS", "RUN", "TABLE", "Role", "Stop"]

TABLE = "replay"
"""The table that experience goes to."""
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

RUN = "run"
"""What actors that start apart need to know, a RunNotice; empty where the run has ended."""

Stop = threading.Event


@dataclass(frozen=True)
class Role:
    """One role of a program: what runs, apart from where."""

    kind: str  # "actor", "evaluator", "quantizer" or "volunteer"
    index: int
    settings: str  # JSON
    generation: int = 0
    """Rises with every start, so that an actor that is started again does not play the same episodes."""

    @property
    def name(self) -> str:
        """For logs and messages: "actor 0"."""
        return f"{self.kind} {self.index}"
