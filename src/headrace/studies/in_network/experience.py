"""Experience of the shape of Breakout's, made up."""

import struct

import numpy as np

from headrace._native import ChunkWriter, Signature
from headrace.types import EnvironmentSpec

__all__ = ["CHUNK_STEPS", "DISCOUNT", "EXPERIENCE", "N_STEP", "SPEC", "count_steps", "make_chunks", "signature"]

SPEC = EnvironmentSpec((84, 84), "uint8", actions=4, stack=4)
"""Breakout as DQN sees it."""
N_STEP = 3
DISCOUNT = 0.99
CHUNK_STEPS = 50
EXPERIENCE = "experience"
"""The mailbox that experience goes through where the learner samples."""
_STEPS = struct.Struct("<I")
_STEPS_OFFSET = 16  # native/core/chunk.h: ChunkHeader.steps


def signature() -> Signature:
    """One step of Breakout."""
    return Signature(SPEC.observation_shape, SPEC.observation_dtype, (), "int64", SPEC.stack)


def count_steps(chunk: bytes) -> int:
    """The transitions in a chunk; an episode's last one has fewer than CHUNK_STEPS."""
    steps: int = _STEPS.unpack_from(chunk, _STEPS_OFFSET)[0]
    return steps


def make_chunks(count: int, seed: int) -> list[bytes]:
    """Full chunks of random frames, with priorities as an actor's Q values would give."""
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
