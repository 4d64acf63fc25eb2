"""The table with Atari's transitions: 2 x 4x84x84 bytes."""

import itertools
from typing import Any

from benchmarks.experience import (
    CHUNK_STEPS,
    N_STEP,
    Steps,
    chunks_of,
    fill,
    make_steps,
    new_chunks,
    stacks_of,
    write_and_insert,
)
from benchmarks.limits import random_gather
from benchmarks.measure import Row, at_most, faster, interleave, resident_bytes
from benchmarks.peers import CPPRB, PRIORITY_EXPONENT, compressed_frames, plain_buffer, transitions_of
from headrace.replay import BatchBuffer, Signature, Table

__all__ = ["measure_frames"]

_FRAME = (84, 84)
_FRAME_BYTES = 84 * 84
_STACK = 4
_STORED = 20_000
_BATCH = 512
_BATCH_BYTES = _BATCH * 2 * _STACK * _FRAME_BYTES
_SOURCES = 8  # distinct chunks, inserted in turn: a few, like a server's receive buffers


def measure_frames() -> list[Row]:
    """Sampling against a plain gather and cpprb, memory, inserting against cpprb."""
    signature = Signature(_FRAME, "uint8", stack=_STACK)
    steps = make_steps(CHUNK_STEPS * 400 + N_STEP, _FRAME, "uint8", seed=0)
    chunks = chunks_of(signature, steps)
    before = resident_bytes()
    table = Table(signature, capacity=_STORED, priority_exponent=PRIORITY_EXPONENT, seed=0)
    fill(table, chunks)
    resident = (resident_bytes() - before) / len(table)
    del chunks
    few = steps.head(CHUNK_STEPS * _SOURCES + N_STEP + _STACK)
    transitions = transitions_of(few, _STACK)[:_SOURCES]
    before = resident_bytes()
    plain = plain_buffer(_STORED, (_STACK, *_FRAME), "uint8")
    _fill_cpprb(plain, transitions)
    plain_resident = (resident_bytes() - before) / _STORED
    compressed, compressed_resident = _compressed(steps)
    stats = table.stats()
    stored = stats["used_bytes"] / stats["size"]
    rows = [
        at_most("frames: memory per transition, arena", "B", stored, 8500),
        at_most("frames: memory per transition, resident", "B", resident, 8500, f"{CPPRB}, plain", plain_resident),
        at_most(
            "frames: memory per transition, resident", "B", resident, 8500, f"{CPPRB}, compressed", compressed_resident
        ),
    ]
    rows += _sampling(table, plain, compressed)
    del compressed
    return rows + _inserting(table, plain, few, transitions)


def _compressed(steps: Steps) -> tuple[Any, float]:
    """A full cpprb buffer with compressed frames, and its resident bytes per transition."""
    stacks = stacks_of(steps.head(CHUNK_STEPS * 20), _STACK)
    stacks = stacks.transpose(0, 2, 3, 1).copy()
    before = resident_bytes()
    buffer = compressed_frames(_STORED, _STACK, _FRAME)
    for number in range(_STORED // CHUNK_STEPS):
        begin = number % 19 * CHUNK_STEPS
        end = begin + CHUNK_STEPS
        buffer.add(
            obs=stacks[begin:end],
            next_obs=stacks[begin + 1 : end + 1],
            act=steps.action[begin:end],
            rew=steps.reward[begin:end],
            done=steps.reward[begin:end] * 0,
            priorities=abs(steps.value[begin:end]),
        )
    return buffer, (resident_bytes() - before) / _STORED


def _fill_cpprb(buffer: Any, transitions: list[dict[str, Any]]) -> None:
    for number in range(-(-_STORED // CHUNK_STEPS)):
        buffer.add(**transitions[number % len(transitions)])


def _sampling(table: Table, plain: Any, compressed: Any) -> list[Row]:
    batch = BatchBuffer(table.signature, _BATCH)
    observation, next_observation = batch.arrays.observation, batch.arrays.next_observation
    stored_bytes = int(table.stats()["used_bytes"])
    gather = random_gather(stored_bytes, _FRAME_BYTES, _STACK, observation, next_observation)
    times = interleave(
        {
            "gather": gather,
            "ours": lambda: table.sample_into(batch, 0.4),
            "own": lambda: table.sample(_BATCH),
            "plain": lambda: plain.sample(_BATCH, beta=0.4),
            "compressed": lambda: compressed.sample(_BATCH, beta=0.4),
        },
        repeat_seconds=0.2,
    )
    return [
        _speed("frames: sample into reused arrays", times["ours"], "plain C gather", times["gather"], 0.9),
        _speed("frames: sample into reused arrays", times["ours"], f"{CPPRB}, plain", times["plain"]),
        _speed("frames: sample into reused arrays", times["ours"], f"{CPPRB}, compressed", times["compressed"]),
        _speed("frames: sample into new arrays", times["own"], f"{CPPRB}, plain", times["plain"]),
    ]


def _speed(name: str, ours: float, peer_name: str, peer: float, at_least: float | None = None) -> Row:
    """Converts the times to bytes of batches per second."""
    row = faster(name, ours, peer_name, peer, at_least)
    return row._replace(unit="GB/s", ours=_BATCH_BYTES / ours / 1e9, peer=_BATCH_BYTES / peer / 1e9)


def _inserting(table: Table, plain: Any, steps: Steps, transitions: list[dict[str, Any]]) -> list[Row]:
    chunks = new_chunks(chunks_of(table.signature, steps)[:_SOURCES])
    batches = itertools.cycle(transitions)
    times = interleave(
        {
            "chunk": lambda: table.insert(next(chunks)),
            "writer": write_and_insert(table, steps),
            "add": lambda: plain.add(**next(batches)),
        }
    )
    return [
        faster("frames: insert a chunk of 50", times["chunk"], f"{CPPRB}, plain, add(50)", times["add"], 5),
        faster("frames: write 50 steps and insert", times["writer"], f"{CPPRB}, plain, add(50)", times["add"]),
    ]
