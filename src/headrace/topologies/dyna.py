"""What planning adds to a topology: tables for a world model, planners, and batches with simulated transitions."""

import dataclasses
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.algorithms.dyna_q.config import DynaQ
from headrace.algorithms.writers import table_signature
from headrace.errors import CheckpointError, ConfigError, StorageError
from headrace.replay import Experience, MixedBatches, ReplayTable, Signature, Table
from headrace.roles.actor import ActorSettings
from headrace.roles.handles import REPLAY, SIMULATED, TRANSITIONS
from headrace.roles.planner import PlannerSettings
from headrace.roles.planning_worker import PlanningWorker
from headrace.topologies.base import RunContext
from headrace.topologies.experience import table_options

__all__ = [
    "DynaTables",
    "add_dyna_tables",
    "dyna_tables",
    "mixed_batches",
    "planning_worker",
]

_LENGTH = struct.Struct("<Q")
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class DynaTables(Experience):
    """Real n-step experience, the same as one-step transitions, and simulated experience.

    A snapshot contains all three.
    """

    real: ReplayTable
    transitions: ReplayTable
    simulated: ReplayTable

    @property
    def all(self) -> tuple[ReplayTable, ReplayTable, ReplayTable]:
        """The tables, in the order of a snapshot."""
        return self.real, self.transitions, self.simulated

    def stats(self) -> dict[str, float]:
        """Statistics of the real experience, and counts of simulated transitions."""
        simulated = self.simulated.stats()
        counts = {f"simulated_{name}": simulated[name] for name in ("size", "inserts", "samples")}
        return self.real.stats() | counts

    def set_paused(self, paused: bool) -> None:
        """Pauses or resumes actors and planners."""
        for table in self.all:
            table.set_paused(paused)

    def save(self, path: str | Path) -> None:
        """Writes a snapshot: the tables' snapshots, each preceded by its length."""
        with Path(path).open("wb") as whole:
            for index, table in enumerate(self.all):
                part = Path(f"{path}.{index}")
                table.save(part)
                whole.write(_LENGTH.pack(part.stat().st_size))
                with part.open("rb") as file:
                    shutil.copyfileobj(file, whole)
                part.unlink()

    def restore(self, path: str | Path) -> None:
        """Loads a snapshot into empty tables.

        Raises CheckpointError if the snapshot is truncated, StorageError if there is no disk space for a temporary part
        file.
        """
        try:
            with Path(path).open("rb") as whole:
                for index, table in enumerate(self.all):
                    part = Path(f"{path}.{index}")
                    try:
                        _take_part(whole, part)
                        table.restore(part)
                    finally:
                        part.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"can't read replay of the checkpoint {path} by its parts: {error.strerror}") from error

    def close(self) -> None:
        """Ends actors and planners."""
        for table in self.all:
            table.close()


def _take_part(whole: BinaryIO, part: Path) -> None:
    """Copies the next part of a snapshot to a separate file."""
    head = whole.read(_LENGTH.size)
    size = left = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    with part.open("wb") as file:
        while data := whole.read(min(left, _PIECE_BYTES)):
            left -= file.write(data)
    if left or not size:
        raise CheckpointError(f"replay of the checkpoint {whole.name} is truncated; a complete one is required")


def dyna_tables(context: RunContext, config: DynaQ, environments: int, chunk_steps: int) -> DynaTables:
    """The tables in this process, for a worker that acts, learns and plans in turn; raises as table_options()."""

    def make(name: str, signature: Signature, **options: Any) -> ReplayTable:
        del name
        return Table(signature, **options)

    return _tables(context, config, environments, chunk_steps, make)


def add_dyna_tables(context: RunContext, config: DynaQ, environments: int, chunk_steps: int) -> DynaTables:
    """The tables on the run's server; raises as table_options(), and ConfigError if the server is a Redis."""

    def make(name: str, signature: Signature, **options: Any) -> ReplayTable:
        if not context.server.serves_samples:
            raise ConfigError(
                "algorithm is dyna-q and the server is a Redis, which cannot sample: a server of `headrace serve`, "
                "none, or no planning, is required"
            )
        return context.server.add_table(name, signature, fresh=context.fresh, **options)

    return _tables(context, config, environments, chunk_steps, make)


def mixed_batches(tables: DynaTables, config: DynaQ) -> MixedBatches:
    """Batches with their share of simulated transitions, if there are enough."""
    return MixedBatches(tables.real, tables.simulated, config.batch_size, config.real_rows, config.importance_exponent)


def planning_worker(settings: ActorSettings, context: RunContext, config: DynaQ, tables: DynaTables) -> PlanningWorker:
    """A worker that acts, learns and plans in turn, as the only planner regardless of the `apex` setting."""
    return PlanningWorker(
        settings,
        PlannerSettings(context.spec, dataclasses.replace(config, planners=1), context.seed),
        context.updater,
        *tables.all,
        mixed_batches(tables, config),
    )


def _tables(
    context: RunContext,
    config: DynaQ,
    environments: int,
    chunk_steps: int,
    make: Callable[..., ReplayTable],
) -> DynaTables:
    """The three tables. Only the real one's limiter blocks; it counts whole batches, as drawn by `MixedBatches`."""
    simulated = dataclasses.replace(
        config, replay_capacity=config.simulated_capacity, replay_bytes=0, learning_starts=1
    )
    free = {"samples_per_insert": 0.0, "limiter_tolerance": 0.0}  # planners limit their own rate
    signature = table_signature(context.spec)
    place, seed = (context.spec, context.server), context.seed
    options = table_options(config, *place, environments, chunk_steps, seed)
    simulated_options = table_options(simulated, *place, 1, config.rollout_steps, seed)
    return DynaTables(
        make(REPLAY.name, signature, **options),
        make(TRANSITIONS.name, signature, **options | free | {"sampler": config.search_control}),
        make(SIMULATED.name, signature, **simulated_options | free | {"sampler": "uniform"}),
    )
