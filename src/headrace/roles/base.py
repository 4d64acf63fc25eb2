"""Names that the roles share on the server, and what starts a role anywhere."""

import threading
from dataclasses import dataclass
from typing import Protocol

from headrace.parameters.base import ParameterStore

__all__ = ["EVALUATION", "EVALUATION_POLICY", "POLICY", "REPORTS", "TABLE", "Role", "RoleServer", "Stop"]

TABLE = "replay"
"""The table that experience goes to."""
POLICY = "policy"
"""The newest policy for actors."""
EVALUATION = "evaluation"
"""The request that the evaluator answers next."""
EVALUATION_POLICY = "evaluation-policy"
"""The policy that this request is about."""
REPORTS = "reports"
"""Mailbox of JSON records, read by the training process."""

Stop = threading.Event


class RoleServer(ParameterStore, Protocol):
    """The server as a role sees it: a native Client."""

    def insert(self, table: str, chunk: bytes) -> int:
        """Stores a chunk, waiting for the limiter as long as it holds."""

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""

    def close(self) -> None:
        """Ends the connection."""


@dataclass(frozen=True)
class Role:
    """One role of a program: what runs, apart from where."""

    kind: str  # "actor" or "evaluator"
    index: int
    settings: str  # JSON
    generation: int = 0
    """Rises with every start, so that an actor that is started again does not play the same episodes."""

    @property
    def name(self) -> str:
        """For logs and messages: "actor 0"."""
        return f"{self.kind} {self.index}"
