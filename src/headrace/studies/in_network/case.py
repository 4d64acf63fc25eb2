"""One measurement: place of sampling, transport, number and kind of actors; and the settings of its processes."""

from dataclasses import asdict, dataclass
from typing import Literal

from headrace.report.formats import counted
from headrace.servers import Endpoint
from headrace.studies.in_network.hosts import Link
from headrace.studies.sheet import fingerprint

__all__ = [
    "LEARNER_PHASES",
    "OUR_VARIANTS",
    "REDIS_VARIANTS",
    "TRANSPORTS",
    "VARIANTS",
    "ActorSettings",
    "Actors",
    "Case",
    "LearnerSettings",
    "Transport",
    "Variant",
]

Variant = Literal["redis", "redis-ahead", "learner", "server"]
Transport = Literal["unix", "loopback", "hosts", "memif"]
Actors = Literal["synthetic", "breakout"]

VARIANTS: dict[Variant, str] = {
    "redis": "Redis, sampling in the learner (published baseline)",
    "redis-ahead": "Redis, sampling in the learner, run ahead",
    "learner": "our server, sampling in the learner",
    "server": "our server, sampling in the server",
}
TRANSPORTS: dict[str, tuple[Transport, ...]] = {"kernel": ("unix", "loopback", "hosts"), "bypass": ("memif",)}
LEARNER_PHASES = ("pull", "store", "sample", "wait", "transfer", "train", "priorities", "publish", "other")
OUR_VARIANTS: tuple[Variant, ...] = ("learner", "server")
REDIS_VARIANTS: tuple[Variant, ...] = ("redis", "redis-ahead")
"""Variants that run over TCP only: our client does not reach Redis over a Unix socket."""


@dataclass(frozen=True)
class Case:
    """One measurement; `link` is the one between server and learner if they are hosts."""

    variant: Variant
    transport: Transport
    actors: int
    kind: Actors
    batch_size: int
    seconds: float
    link: Link | None = None
    round: int = 0

    @property
    def name(self) -> str:
        """A name that is equal for equal settings."""
        return fingerprint("in-network", asdict(self))

    def __str__(self) -> str:
        over = f"{self.transport}" if self.link is None else f"{self.transport}, {self.link}"
        return f"{self.variant}, {over}, {counted(self.actors, f'{self.kind} actor')}"


@dataclass(frozen=True)
class ActorSettings:
    """Settings of an actor, sent as JSON."""

    endpoint: Endpoint
    index: int
    kind: Actors
    sampled_by_server: bool
    frames_per_second: float
    """Rate of a synthetic actor while the server does not block it."""
    fill_chunks: int
    left_chunks: int
    """Bytes pushed at the end, for one large pull."""


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of the learner, sent as JSON."""

    endpoint: Endpoint
    variant: Variant
    batch_size: int
    pull_bytes: int
