"""The table that a topology's experience goes through."""

from math import ceil, prod
from typing import Any

import numpy as np

from headrace.errors import ConfigError, require
from headrace.machine import total_memory_bytes
from headrace.roles.actor import table_signature
from headrace.roles.base import TABLE
from headrace.servers import ReplayTable
from headrace.topologies.base import Workshop
from headrace.types import EnvironmentSpec

__all__ = ["NoReplay", "add_table", "table_options"]

_HEADER_BYTES = 64
_STEP_BYTES = 8 + 5 * 4  # policy version, first, last, reward, discount, priority
_SLACK = 1.25  # for chunks that episodes' ends cut short


class NoReplay:
    """The experience of an algorithm that learns from each step once, and keeps none; implements `Experience`."""

    def stats(self) -> dict[str, float]:
        """Nothing stored; each step sampled once."""
        return {"samples_per_insert": 1.0, "size": 0, "capacity": 0, "used_bytes": 0}

    def set_paused(self, paused: bool) -> None:
        """Nobody gathers but the one who learns."""

    def save(self, path: str) -> None:
        """Nothing to save: saves_experience is False."""

    def restore(self, path: str) -> None:
        """Nothing was saved."""

    def close(self) -> None:
        """Nobody to end."""


def add_table(workshop: Workshop, environments: int, chunk_steps: int) -> ReplayTable:
    """The run's table on its server; raises what table_options() and the server raise."""
    options = table_options(workshop, environments, chunk_steps)
    return workshop.server.add_table(TABLE, table_signature(workshop.spec), fresh=workshop.fresh, **options)


def table_options(workshop: Workshop, environments: int, chunk_steps: int, workers: int = 1) -> dict[str, Any]:
    """Options of the native table, its limiter set to the algorithm's replay ratio.

    Actors finish their chunks in bursts, one of each environment at nearly the same time; the limiter's tolerance is
    two bursts, so that the learner works on one while the actors gather the next and neither waits.

    With several workers the table is that of one of them, who has these environments: the settings are for all
    together, and each has its share, but no less than a batch to start with.

    Raises ConfigError where the table could not hold what the first batch waits for (the oldest transitions go by
    whole chunks), or the machine not the table, if it is this machine that has it.
    """
    spec, algorithm = workshop.spec, workshop.off_policy
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
    if not workshop.server.keeps_experience and whole > memory:
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
        "seed": workshop.seed,
    }


def _bytes_for(transitions: int, spec: EnvironmentSpec, n_step: int, chunk_steps: int) -> int:
    """Memory for so many transitions, and two chunks more."""
    rows = chunk_steps + n_step + spec.stack - 1
    row_bytes = prod(spec.observation_shape) * np.dtype(spec.observation_dtype).itemsize
    action_bytes = 4 * spec.actions if spec.continuous else 8
    chunk = _HEADER_BYTES + rows * row_bytes + chunk_steps * (_STEP_BYTES + action_bytes)
    return int(_SLACK * chunk * (ceil(transitions / chunk_steps) + 2))
