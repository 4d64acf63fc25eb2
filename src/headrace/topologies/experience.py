"""The table for a topology's experience."""

from math import ceil, prod
from typing import Any

import numpy as np

from headrace.errors import ConfigError, require
from headrace.machine import total_memory_bytes
from headrace.replay import ReplayTable
from headrace.roles.actor import table_signature
from headrace.roles.handles import REPLAY
from headrace.topologies.base import RunContext
from headrace.types import EnvironmentSpec

__all__ = ["add_table", "table_options"]

_HEADER_BYTES = 64
_STEP_BYTES = 8 + 5 * 4  # policy version, first, last, reward, discount, priority
_SLACK = 1.25  # for chunks that end early with an episode


def add_table(context: RunContext, environments: int, chunk_steps: int) -> ReplayTable:
    """Adds the run's table to its server; raises what table_options() and the server raise."""
    options = table_options(context, environments, chunk_steps)
    return context.server.add_table(REPLAY.name, table_signature(context.spec), fresh=context.fresh, **options)


def table_options(context: RunContext, environments: int, chunk_steps: int, workers: int = 1) -> dict[str, Any]:
    """Options of the native table, with its limiter set to the algorithm's replay ratio.

    Actors finish their chunks in bursts: one chunk per environment at nearly the same time. The limiter's tolerance is
    two bursts, so that the learner works on one while the actors gather the next and neither waits.

    With several workers the table belongs to one of them, with `environments` environments. The settings are totals
    over all workers: each gets an equal share, but starts with at least one batch.

    Raises ConfigError if the table could not hold the transitions required before the first batch (the oldest are
    removed in whole chunks), or if the table is on this machine and exceeds its memory.
    """
    spec, algorithm = context.spec, context.off_policy
    burst = algorithm.samples_per_step * chunk_steps * environments
    start = max(ceil(algorithm.learning_starts / workers), algorithm.batch_size)
    capacity = ceil(algorithm.replay_capacity / workers)
    each = f", for each of {workers} workers" if workers > 1 else ""
    require(
        "replay_capacity",
        algorithm.replay_capacity,
        capacity >= start + chunk_steps,
        f"at least {workers * (start + chunk_steps)}: the {start} transitions that learning starts with, and a chunk"
        + each,
    )
    enough = _bytes_for(start, spec, algorithm.n_step, chunk_steps)
    share_bytes = ceil(algorithm.replay_bytes / workers)
    require(
        "replay_bytes",
        algorithm.replay_bytes,
        share_bytes == 0 or share_bytes >= enough,
        f"at least {workers * enough}, for the {start} transitions in chunks of {chunk_steps} that learning starts with"
        + each,
    )
    capacity_bytes = share_bytes or _bytes_for(capacity, spec, algorithm.n_step, chunk_steps)
    whole, memory = workers * capacity_bytes, total_memory_bytes()
    if not context.server.keeps_experience and whole > memory:
        field = "replay_bytes" if algorithm.replay_bytes else "replay_capacity"
        raise ConfigError(
            f"{field} is {getattr(algorithm, field)}, which takes {whole / 1e9:.1f} GB; this machine has "
            f"{memory / 1e9:.1f} GB: a smaller replay_capacity, or a limit by replay_bytes, is required"
        )
    return {
        "capacity": capacity,
        "capacity_bytes": capacity_bytes,
        "sampler": "prioritized" if algorithm.prioritized else "uniform",
        "priority_exponent": algorithm.priority_exponent,
        "samples_per_insert": algorithm.samples_per_step,
        "limiter_tolerance": algorithm.batch_size + 2 * burst,
        "min_size": start,
        "seed": context.seed,
    }


def _bytes_for(transitions: int, spec: EnvironmentSpec, n_step: int, chunk_steps: int) -> int:
    """Memory for this many transitions and two more chunks."""
    rows = chunk_steps + n_step + spec.stack - 1
    row_bytes = prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize
    action_bytes = 4 * spec.actions if spec.continuous else 8 * max(1, len(spec.branches))
    chunk = _HEADER_BYTES + rows * row_bytes + chunk_steps * (_STEP_BYTES + action_bytes)
    return int(_SLACK * chunk * (ceil(transitions / chunk_steps) + 2))
