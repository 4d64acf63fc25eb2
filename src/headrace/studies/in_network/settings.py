"""What the processes of a case are told, and the phases that they time."""

from dataclasses import dataclass

from headrace.studies.in_network.case import Actors, Variant

__all__ = ["LEARNER_PHASES", "ActorSettings", "LearnerSettings"]

LEARNER_PHASES = ("pull", "store", "sample", "wait", "transfer", "train", "priorities", "publish", "other")


@dataclass(frozen=True)
class ActorSettings:
    """What an actor is told; travels as JSON."""

    endpoint: str
    """JSON of an `Endpoint`."""
    index: int
    kind: Actors
    sampled_by_server: bool
    frames_per_second: float
    """Of a synthetic actor, while it is not held up by the server."""
    fill_chunks: int
    left_chunks: int
    """Pushed at the end, for one large pull."""


@dataclass(frozen=True)
class LearnerSettings:
    """What the learner is told; travels as JSON."""

    endpoint: str
    """JSON of an `Endpoint`."""
    variant: Variant
    batch_size: int
    min_size: int
    publish_period: int
    pull_bytes: int
