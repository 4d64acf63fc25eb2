"""Synthetic experience: the same steps as chunks for Headrace and as transitions for cpprb."""

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.replay import ChunkWriter, Signature, Table
from headrace.types import Array

__all__ = [
    "CHUNK_STEPS",
    "DISCOUNT",
    "N_STEP",
    "Steps",
    "chunks_of",
    "fill",
    "make_steps",
    "new_chunks",
    "sent_as",
    "stacks_of",
    "write_and_insert",
    "write_chunk",
]

CHUNK_STEPS = 50
N_STEP = 3
DISCOUNT = 0.99
_WRITER_AT = 48  # in a chunk's header


class Steps(NamedTuple):
    """T steps of one long episode, with one more frame and Q value than steps."""

    frame: Array  # [T + 1, *O]
    action: NDArray[np.int64]  # [T]
    reward: NDArray[np.float32]  # [T]
    value: NDArray[np.float64]  # [T + 1] in place of an actor's network: random initial priorities

    def head(self, count: int) -> "Steps":
        """The first steps."""
        return Steps(self.frame[: count + 1], self.action[:count], self.reward[:count], self.value[: count + 1])


def make_steps(count: int, shape: tuple[int, ...], dtype: str, seed: int) -> Steps:
    """Random steps, which can't be compressed or predicted."""
    rng = np.random.default_rng(seed)
    size = (count + 1, *shape)
    frame = rng.integers(0, 256, size, np.uint8) if dtype == "uint8" else rng.standard_normal(size).astype(dtype)
    return Steps(
        frame, rng.integers(0, 4, count), rng.standard_normal(count).astype(np.float32), rng.standard_normal(count + 1)
    )


def write_chunk(writer: ChunkWriter, steps: Steps, begin: int, end: int) -> list[bytes]:
    """Appends steps begin .. end-1 of an open episode as an actor does; returns the full chunks."""
    for t in range(begin, end):
        writer.append(
            steps.action[t], steps.reward[t], steps.frame[t + 1], False, False, steps.value[t], steps.value[t]
        )
    return writer.take()


def chunks_of(signature: Signature, steps: Steps) -> list[bytes]:
    """All steps as full chunks of 50 transitions; an incomplete chunk is left out."""
    writer = ChunkWriter(signature, n_step=N_STEP, discount=DISCOUNT, chunk_steps=CHUNK_STEPS)
    writer.start(steps.frame[0])
    return write_chunk(writer, steps, 0, len(steps.action))


def sent_as(chunk: bytearray, writer: int, sequence: int) -> bytearray:
    """Makes the chunk a new one for a server, which identifies chunks by this pair; writer 0 means always new."""
    struct.pack_into("<QQ", chunk, _WRITER_AT, writer, sequence)
    return chunk


def new_chunks(chunks: list[bytes]) -> Iterator[bytearray]:
    """Repeats these chunks endlessly, each time as new ones: a table stores no chunk twice."""
    copies = itertools.cycle([bytearray(chunk) for chunk in chunks])
    for sequence, chunk in enumerate(copies, start=1):
        yield sent_as(chunk, 1, sequence)


def fill(table: Table, chunks: list[bytes]) -> None:
    """Inserts chunks repeatedly until the table is full."""
    for number in range(-(-table.native.capacity // CHUNK_STEPS)):
        table.insert(sent_as(bytearray(chunks[number % len(chunks)]), 0, 0))


def stacks_of(steps: Steps, stack: int) -> Array:
    """Stacks [T + 2 - K, K, *O] of successive frames, each a separate copy."""
    windows = np.lib.stride_tricks.sliding_window_view(steps.frame, stack, axis=0)
    return np.ascontiguousarray(np.moveaxis(windows, -1, 1))


def write_and_insert(table: Table, steps: Steps) -> Callable[[], None]:
    """A call that takes 50 steps, one at a time, through a writer into the table."""
    writer = ChunkWriter(table.signature, n_step=N_STEP, discount=DISCOUNT, chunk_steps=CHUNK_STEPS)
    writer.start(steps.frame[0])
    places: Iterator[int] = itertools.cycle(range(0, len(steps.action) - CHUNK_STEPS + 1, CHUNK_STEPS))

    def write() -> None:
        begin = next(places)
        for chunk in write_chunk(writer, steps, begin, begin + CHUNK_STEPS):
            table.insert(chunk)

    return write
