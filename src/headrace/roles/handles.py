"""Handles: what a topology passes to its roles so that they find each other's data on the run's server.

A handle is a few fields that travel with a role as JSON. Roles that hold the same handle are connected: what one sends,
the other receives.
"""

from dataclasses import dataclass

from headrace.parameters.snapshot import Stamp

__all__ = [
    "PARAMETERS",
    "POLICY",
    "REPLAY",
    "SIMULATED",
    "TRANSITIONS",
    "ParametersHandle",
    "PolicyHandle",
    "TableHandle",
]


@dataclass(frozen=True)
class TableHandle:
    """A table of experience: actors and planners insert chunks, learners and planners sample batches."""

    name: str


@dataclass(frozen=True)
class PolicyHandle:
    """The policies that actors install, one blob per version, each followed by its news with the same version.

    The news says when the learner had the policy. Polling it transfers no policy.
    """

    name: str

    @property
    def news(self) -> str:
        """Name of the news."""
        return f"{self.name}-news"

    def blobs(self, policy: bytes, taken: Stamp) -> dict[str, bytes]:
        """What is published for one version, in this order; `taken` says when the learner had the policy."""
        return {self.name: policy, self.news: taken.to_json().encode()}


@dataclass(frozen=True)
class ParametersHandle:
    """The learner's parameters in full precision, from which the quantizer makes policies."""

    name: str


REPLAY = TableHandle("replay")
"""The experience that the run learns from."""
TRANSITIONS = TableHandle("transitions")
"""One-step transitions, from which planners learn a world model."""
SIMULATED = TableHandle("simulated")
"""Simulated transitions from planners."""
POLICY = PolicyHandle("policy")
PARAMETERS = ParametersHandle("parameters")
