"""The table with observations of 8 floats: the cost of the sum tree and of calls."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experience import CHUNK_STEPS, N_STEP, Steps, chunks_of, fill, make_steps, new_chunks, write_and_insert
from benchmarks.measure import Row, at_most, faster, interleave
from benchmarks.peers import CPPRB, PRIORITY_EXPONENT, nstep_options, plain_buffer, transitions_of
from headrace.replay import BatchBuffer, Signature, Table

__all__ = ["measure_vectors"]

_SHAPE = (8,)
_BATCH = 512
_CHUNKS = 256
_KEYS = 128  # distinct sets of keys, so that not all of their leaves are in the cache
_PRIORITIES = (
    101  # coprime to it: a key gets another priority each time (cpprb stops climbing where a sum is unchanged)
)


def measure_vectors() -> list[Row]:
    """Against cpprb with 1e5 and 1e6 stored, and how the cost of a sample grows up to 1e7."""
    signature = Signature(_SHAPE, "float32")
    steps = make_steps(CHUNK_STEPS * _CHUNKS + N_STEP, _SHAPE, "float32", seed=1)
    chunks = chunks_of(signature, steps)
    rows: list[Row] = []
    for stored in (100_000, 1_000_000):
        rows += _against_cpprb(_filled(signature, stored, chunks), _filled_cpprb(stored, steps), steps, chunks)
    rows += _step_by_step(_filled(signature, 100_000, chunks), steps)
    return rows + _growth({size: _filled(signature, size, chunks) for size in (10**5, 10**6, 10**7)})


def _filled(signature: Signature, capacity: int, chunks: list[bytes]) -> Table:
    table = Table(signature, capacity=capacity, priority_exponent=PRIORITY_EXPONENT, seed=0)
    fill(table, chunks)
    return table


def _filled_cpprb(capacity: int, steps: Steps) -> Any:
    buffer = plain_buffer(capacity, _SHAPE, "float32")
    batches = transitions_of(steps, stack=1)
    for number in range(capacity // CHUNK_STEPS):
        buffer.add(**batches[number % len(batches)])
    return buffer


def _against_cpprb(table: Table, buffer: Any, steps: Steps, chunks: list[bytes]) -> list[Row]:
    size = f"{len(table):.0e}".replace("e+0", "e")
    batch = BatchBuffer(table.signature, _BATCH)
    keys = itertools.cycle([_sampled_keys(table, batch) for _ in range(_KEYS)])
    indexes = itertools.cycle([buffer.sample(_BATCH)["indexes"].copy() for _ in range(_KEYS)])
    priority = itertools.cycle(np.abs(np.random.default_rng(2).standard_normal((_PRIORITIES, _BATCH), np.float32)))
    samples = interleave(
        {
            "ours": lambda: table.sample_into(batch, 0.4),
            "own": lambda: table.sample(_BATCH),
            "cpprb": lambda: buffer.sample(_BATCH, beta=0.4),
        }
    )
    updates = interleave(
        {
            "ours": lambda: table.update_priorities(next(keys), next(priority)),
            "cpprb": lambda: buffer.update_priorities(next(indexes), next(priority)),
        }
    )
    few = new_chunks(chunks)
    batches = itertools.cycle(transitions_of(steps, stack=1))
    inserts = interleave(
        {
            "chunk": lambda: table.insert(next(few)),
            "writer": write_and_insert(table, steps),
            "cpprb": lambda: buffer.add(**next(batches)),
        }
    )
    add = f"{CPPRB}, add(50)"
    return [
        faster(f"vectors, {size}: sample 512 into reused arrays", samples["ours"], CPPRB, samples["cpprb"], 4),
        faster(f"vectors, {size}: sample 512 into new arrays", samples["own"], CPPRB, samples["cpprb"], 4),
        faster(f"vectors, {size}: update 512 priorities", updates["ours"], CPPRB, updates["cpprb"], 4),
        faster(f"vectors, {size}: insert a chunk of 50", inserts["chunk"], add, inserts["cpprb"], 4),
        faster(f"vectors, {size}: write 50 steps and insert", inserts["writer"], add, inserts["cpprb"]),
    ]


def _sampled_keys(table: Table, batch: BatchBuffer) -> NDArray[np.uint64]:
    table.sample_into(batch, 0.4)
    return batch.arrays.key.copy()


def _step_by_step(table: Table, steps: Steps) -> list[Row]:
    """Adds single steps and stores n-step transitions, like a user's loop would with either."""
    buffer = plain_buffer(table.native.capacity, _SHAPE, "float32", **nstep_options())
    times = interleave({"ours": write_and_insert(table, steps), "cpprb": _add_steps(buffer, steps)})
    peer = f"{CPPRB}, 50 x add, n-step"
    return [faster("vectors, 1e5: write 50 steps and insert", times["ours"], peer, times["cpprb"])]


def _add_steps(buffer: Any, steps: Steps) -> Callable[[], None]:
    places = itertools.cycle(range(0, len(steps.action) - CHUNK_STEPS + 1, CHUNK_STEPS))

    def add() -> None:
        begin = next(places)
        for t in range(begin, begin + CHUNK_STEPS):
            buffer.add(
                obs=steps.frame[t],
                act=steps.action[t],
                rew=steps.reward[t],
                next_obs=steps.frame[t + 1],
                done=0.0,
                priorities=steps.value[t] ** 2,
            )

    return add


def _growth(tables: dict[int, Table]) -> list[Row]:
    """The cost of a sample as the table grows."""
    calls = {}
    for size, table in tables.items():
        batch = BatchBuffer(table.signature, _BATCH)
        calls[str(size)] = lambda table=table, batch=batch: table.sample_into(batch, 0.4)
    times = {int(size): seconds for size, seconds in interleave(calls).items()}
    base = times[100_000] * 1e6
    return [
        at_most("vectors, 1e6: sample 512", "us", times[10**6] * 1e6, 2.5, "headrace, 1e5", base, scale=True),
        at_most("vectors, 1e7: sample 512", "us", times[10**7] * 1e6, 2.5, "headrace, 1e5", base, scale=True),
    ]
