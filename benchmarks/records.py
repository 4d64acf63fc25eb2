"""A table of records, which hold Dict observations and action masks, against one of arrays with as many bytes.

And against one of records without the masks, which have fewer bytes. One thread. The rows without a requirement are
what packing and masks cost an actor, and unpacking a learner.
"""

import functools
from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from benchmarks.experience import CHUNK_STEPS, N_STEP, Steps, chunks_of, fill, make_steps, write_and_insert
from benchmarks.measure import Row, at_most, faster, interleave, make_parser, report, require, run
from headrace.algorithms.exploration import EpsilonGreedy
from headrace.environments.records import Packer
from headrace.networks.records import ILLEGAL, draw_records, expand
from headrace.replay import BatchBuffer, Signature, Table

__all__ = ["main"]

_BATCH = 256
_CAPACITY = 10_000
_CHUNKS = 64
_ACTIONS = 18
_ENVIRONMENTS = 32
_MOST = 1.1
_SPACES = {
    "vectors": spaces.Dict(goal=spaces.Box(-1, 1, (3,)), state=spaces.Box(-1, 1, (25,)), turn=spaces.Discrete(4)),
    "image": spaces.Dict(image=spaces.Box(0, 255, (84, 84, 3), np.uint8), way=spaces.MultiDiscrete([4, 8])),
}


def main() -> int:
    """Measures, prints and writes results/records.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace")
    rows = [row for name, space in _SPACES.items() for row in (*_table(name, space), *_conversions(name, space))]
    return report("records", [*rows, _exploration()])


def _table(name: str, space: spaces.Dict) -> list[Row]:
    """Sampling a batch, and taking 50 steps through a writer into the table."""
    packer, unmasked = _packer(space), Packer(space, None, 0)
    size = packer.record_bytes
    steps = make_steps(CHUNK_STEPS * _CHUNKS + N_STEP, (1,), "float32", seed=1)
    records, without = (
        draw_records(np.random.default_rng(2), len(steps.frame), each.record_bytes, each.parts)
        for each in (packer, unmasked)
    )
    contenders = {
        "record": (Signature((size,), "uint8"), steps._replace(frame=records)),
        "array": (Signature((size // 4,), "uint32"), steps._replace(frame=records.view(np.uint32))),
        "without masks": (Signature((unmasked.record_bytes,), "uint8"), steps._replace(frame=without)),
    }
    tables = {kind: _filled(*each) for kind, each in contenders.items()}
    samples = interleave({kind: _sampling(table) for kind, table in tables.items()})
    inserts = interleave({kind: write_and_insert(tables[kind], each[1]) for kind, each in contenders.items()})
    calls = {f"sample {_BATCH}": samples, f"{CHUNK_STEPS} steps": inserts}
    return [
        at_most(f"{name}: {what}", "us", 1e6 * call["record"], _MOST, peer, 1e6 * call[peer], scale=True)
        for what, call in calls.items()
        for peer in ("array", "without masks")
    ]


def _conversions(name: str, space: spaces.Dict) -> list[Row]:
    """Packing an observation against copying one, and unpacking a batch for dense layers against converting it."""
    packer = _packer(space)
    random = np.random.default_rng(3)
    records = draw_records(random, _BATCH, packer.record_bytes, packer.parts)
    observation, info = space.sample(), {"action_mask": np.ones(_ACTIONS, np.int8)}
    rows = np.empty_like(records)
    packing = interleave(
        {
            "pack": lambda: packer.pack(observation, info, rows[0], final=False),
            "copy": lambda: np.copyto(rows[0], records[0]),
        }
    )
    features = expand(records, packer.parts).astype(np.float64)
    unpacking = interleave(
        {"expand": lambda: expand(records, packer.parts), "convert": lambda: features.astype(np.float32)}
    )
    return [
        faster(f"{name}: pack one", packing["pack"], "copy", packing["copy"]),
        faster(f"{name}: unpack {_BATCH}", unpacking["expand"], "convert", unpacking["convert"]),
    ]


def _exploration() -> Row:
    """Epsilon-greedy actions with and without masks."""
    random = np.random.default_rng(4)
    q = random.standard_normal((_ENVIRONMENTS, _ACTIONS)).astype(np.float32)
    masked = np.where(random.random(q.shape) < 0.5, q, np.float32(ILLEGAL))
    exploration = EpsilonGreedy([0.1] * _ENVIRONMENTS, 0)
    seconds = interleave(
        {"masked": functools.partial(exploration.choose, masked), "plain": functools.partial(exploration.choose, q)}
    )
    return faster(f"{_ENVIRONMENTS} actions with masks", seconds["masked"], "without", seconds["plain"])


def _packer(space: spaces.Dict) -> Packer:
    return Packer(space, np.ones(_ACTIONS, np.int8), _ACTIONS)


def _filled(signature: Signature, steps: Steps) -> Table:
    table = Table(signature, capacity=_CAPACITY, seed=0)
    fill(table, chunks_of(signature, steps))
    return table


def _sampling(table: Table) -> Callable[[], object]:
    buffer = BatchBuffer(table.signature, _BATCH)
    return lambda: table.sample_into(buffer, 0.4)


if __name__ == "__main__":
    run(main)
