"""One measurement: place of sampling, transport, number and kind of actors.

Also the settings of its processes, and synthetic experience with the shapes of Breakout.
"""

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace._native import ChunkWriter, Signature
from headrace.report.formats import counted
from headrace.servers import Endpoint
from headrace.studies import base
from headrace.studies.in_network.hosts import Link
from headrace.types import EnvironmentSpec

__all__ = [
    "CHUNK_STEPS", "DISCOUNT", "EXPERIENCE", "LEARNER_PHASES", "N_STEP", "OUR_VARIANTS", "REDIS_VARIANTS", "SPEC",
    "TRANSPORTS", "VARIANTS", "ActorSettings", "Actors", "Case", "LearnerSettings", "Transport", "Variant",
    "count_steps", "make_chunks", "signature",
]  # fmt: skip

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
SPEC = EnvironmentSpec((84, 84), "uint8", actions=4, stack=4)
"""Breakout as preprocessed for DQN."""
N_STEP = 3
DISCOUNT = 0.99
CHUNK_STEPS = 50
EXPERIENCE = "experience"
"""The mailbox for experience in variants whose learner samples."""
_STEPS = struct.Struct("<I")
_STEPS_OFFSET = 16  # native/core/chunk.h: ChunkHeader.steps


@dataclass(frozen=True)
class Case(base.Case):
    """One measurement; `link` is the one between server and learner if they are hosts."""

    prefix = "in-network"

    variant: Variant
    transport: Transport
    actors: int
    kind: Actors
    batch_size: int
    seconds: float
    link: Link | None = None
    round: int = 0

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
    """Chunks pushed at the end, for one large pull."""


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of the learner, sent as JSON."""

    endpoint: Endpoint
    variant: Variant
    batch_size: int
    pull_bytes: int


def signature() -> Signature:
    """One frame of Breakout."""
    return Signature(SPEC.observation_shape, SPEC.observation_dtype, (), "int64", SPEC.stack)


def count_steps(chunk: bytes) -> int:
    """The number of transitions in a chunk; the last chunk of an episode has fewer than CHUNK_STEPS."""
    steps: int = _STEPS.unpack_from(chunk, _STEPS_OFFSET)[0]
    return steps


def make_chunks(count: int, seed: int) -> list[bytes]:
    """Full chunks of random frames, with priorities like those from an actor's Q values."""
    rng = np.random.default_rng(seed)
    writer = ChunkWriter(signature(), n_step=N_STEP, discount=DISCOUNT, chunk_steps=CHUNK_STEPS, actor=seed)
    chunks: list[bytes] = []
    frames = rng.integers(0, 256, (2 * CHUNK_STEPS, *SPEC.observation_shape), np.uint8)
    writer.start(frames[0])
    step = 0
    while len(chunks) < count:
        step += 1
        chosen, greedy = rng.normal(size=2)
        writer.append(
            rng.integers(SPEC.actions), float(rng.normal()), frames[step % len(frames)], False, False, chosen, greedy
        )
        if writer.finished:
            chunks += writer.take()
    return chunks[:count]
