"""Synthetic experience with the shapes of Breakout."""

import struct

import numpy as np

from headrace._native import ChunkWriter, Signature
from headrace.types import EnvironmentSpec

__all__ = ["CHUNK_STEPS", "DISCOUNT", "EXPERIENCE", "N_STEP", "SPEC", "count_steps", "make_chunks", "signature"]

SPEC = EnvironmentSpec((84, 84), "uint8", actions=4, stack=4)
"""Breakout as preprocessed for DQN."""
N_STEP = 3
DISCOUNT = 0.99
CHUNK_STEPS = 50
EXPERIENCE = "experience"
"""The mailbox for experience in variants whose learner samples."""
_STEPS = struct.Struct("<I")
_STEPS_OFFSET = 16  # native/core/chunk.h: ChunkHeader.steps


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
