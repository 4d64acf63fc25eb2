"""The table for a topology's experience."""

from math import ceil, prod
from typing import Any

import numpy as np

from headrace.algorithms.config import OffPolicy
from headrace.algorithms.writers import TableForm
from headrace.errors import ConfigError, require
from headrace.machine import total_memory_bytes
from headrace.replay import ReplayTable
from headrace.roles.handles import REPLAY
from headrace.servers import RunServer
from headrace.topologies.base import RunContext
from headrace.types import EnvironmentSpec

__all__ = ["add_table", "table_options", "transitions_to_start"]

_HEADER_BYTES = 64
_STEP_BYTES = 8 + 5 * 4  # policy version, first, last, reward, discount, priority
_SLACK = 1.25  # for chunks that end early with an episode


def add_table(context: RunContext, environments: int, chunk_steps: int) -> ReplayTable:
    """Adds the run's table to its server; raises what table_options() and the server raise."""
    options = table_options(context.off_policy, context.spec, context.server, environments, chunk_steps, context.seed)
    signature = context.off_policy.table_form(context.spec, chunk_steps).signature
    return context.server.add_table(REPLAY.name, signature, fresh=context.fresh, **options)


def transitions_to_start(algorithm: OffPolicy, tables: int = 1) -> int:
    """Transitions that each of so many tables has before its first batch."""
    return max(ceil(algorithm.learning_starts / tables), algorithm.batch_size)


def table_options(
    algorithm: OffPolicy,
    spec: EnvironmentSpec,
    server: RunServer,
    environments: int,
    chunk_steps: int,
    seed: int = 0,
    *,
    workers: int = 1,
) -> dict[str, Any]:
    """Options of the native table, with its limiter set to the algorithm's replay ratio.

    Actors finish their chunks in bursts: each environment's at nearly the same time, and episodes may end at the same
    time. The limiter's tolerance is two bursts, so that the learner works on one while the actors gather the next and
    neither waits.

    With several workers the table belongs to one of them, with `environments` environments. The settings are totals
    over all workers: each gets an equal share, but starts with at least one batch.

    Raises ConfigError if the table could not hold the transitions required before the first batch (the oldest are
    removed in whole chunks), or if the table is on this machine and exceeds its memory.
    """
    form = algorithm.table_form(spec, chunk_steps)
    chunk_steps = form.chunk_steps
    burst = form.burst * environments
    start = transitions_to_start(algorithm, workers)
    capacity = ceil(algorithm.replay_capacity / workers)
    each = f", for each of {workers} workers" if workers > 1 else ""
    require(
        "replay_capacity",
        algorithm.replay_capacity,
        capacity >= start + chunk_steps,
        f"at least {workers * (start + chunk_steps)}: the {start} transitions that learning starts with, and a chunk"
        + each,
    )
    enough = _bytes_for(start, form)
    share_bytes = ceil(algorithm.replay_bytes / workers)
    require(
        "replay_bytes",
        algorithm.replay_bytes,
        share_bytes == 0 or share_bytes >= enough,
        f"at least {workers * enough}, for the {start} transitions in chunks of {chunk_steps} that learning starts with"
        + each,
    )
    capacity_bytes = share_bytes or _bytes_for(capacity, form)
    whole, memory = workers * capacity_bytes, total_memory_bytes()
    if not server.keeps_experience and whole > memory:
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
        "samples_per_insert": form.samples_per_insert,
        "limiter_tolerance": algorithm.batch_size + 2 * burst,
        "min_size": start,
        "seed": seed,
    }


def _bytes_for(transitions: int, form: TableForm) -> int:
    """Memory for this many transitions and two more chunks."""
    signature, steps = form.signature, form.chunk_steps
    rows = steps + form.n_step + signature.stack - 1
    row_bytes = prod(signature.observation_shape) * np.dtype(signature.observation_dtype).itemsize
    action_bytes = prod(signature.action_shape) * np.dtype(signature.action_dtype).itemsize
    chunk = _HEADER_BYTES + rows * row_bytes + steps * (_STEP_BYTES + action_bytes)
    return int(_SLACK * chunk * (ceil(transitions / steps) + 2))
