"""The parameter vectors that a run's workers share, as the training process creates and reads them."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.algorithms.config import Algorithm
from headrace.errors import HeadraceError
from headrace.gradients.base import OpenVector, ParameterVector, SharedOptions
from headrace.gradients.handles import ServedHandle, SharedHandle, VectorHandle
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import OverseenVector
from headrace.servers import Endpoint, drop_shards, lost_updates
from headrace.topologies.config import ParameterServer, Topology

__all__ = ["SharedVectors", "open_saved_vectors", "open_vectors"]


class SharedVectors(Protocol):
    """Shared parameters as the training process sees them: an `OpenVector` that remembers the vectors it created."""

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        """Creates the next vector [P] for the workers; the result holds its newest values."""

    @property
    def handles(self) -> tuple[VectorHandle, ...]:
        """How workers access the vectors, in the order of their creation."""

    @property
    def version(self) -> int:
        """Number of updates applied to the first vector, as far as is known without asking a server."""

    @property
    def updates_lost(self) -> int:
        """Number of updates that restarted servers did not have any more, over all vectors."""

    def close(self) -> None:
        """Closes connections and removes the run's shards from servers that outlive it; its workers have ended."""


def _nothing() -> None:
    pass


def open_vectors(
    config: Topology,
    algorithm: Algorithm,
    endpoint: Endpoint,
    run_id: str = "",
    begin: Callable[[], None] = _nothing,
) -> SharedVectors | None:
    """Creates the shared parameters of a worker topology; returns None for the other topologies.

    `run_id` separates this run's shards from others' on servers that several runs may use. `begin` is called before the
    first shard is created.
    """
    if isinstance(config, ParameterServer):
        return _Served(config, endpoint, run_id, begin)
    shared = config.shared_memory
    return None if shared is None else _Shared(shared, config.acting_processes, live=algorithm.rollouts is None)


def open_saved_vectors(config: Topology) -> OpenVector | None:
    """Opens vectors that a run's checkpoint fits, outside of a run; None if the updater's own vectors do."""
    shared = config.shared_memory
    return None if shared is None else _Shared(shared, config.acting_processes, live=False)


class _Shared:
    """Parameters in memory of this machine; implements `SharedVectors`.

    `live` is False for on-policy algorithms: a rollout needs one fixed policy (Mnih et al. 2016, S3).
    """

    def __init__(self, options: SharedOptions, workers: int, *, live: bool) -> None:
        self._options = options
        self._workers = workers
        self._live = live
        self._models: list[SharedModel] = []

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        shared = self._options
        model = SharedModel.create(
            initial,
            options,
            mode=shared.mode,
            workers=self._workers,
            own_optimizer_state=shared.own_optimizer_state,
            l1_penalty=shared.l1_penalty if len(initial) > 1 else 0.0,  # one number is no network: SAC's temperature
        )
        self._models.append(model)
        return OverseenVector(model)

    @property
    def handles(self) -> tuple[VectorHandle, ...]:
        """How workers access the vectors."""
        shared = self._options
        return tuple(SharedHandle(model.path, shared.mode, shared.average_period, self._live) for model in self._models)

    @property
    def version(self) -> int:
        """Number of updates applied to the first vector."""
        return self._models[0].version if self._models else 0

    @property
    def updates_lost(self) -> int:
        """0: the memory lasts as long as the run."""
        return 0

    def close(self) -> None:
        """No effect: the shared memory is released when its last user closes it."""


class _Served:
    """Parameters in shards on servers; implements `SharedVectors`."""

    def __init__(self, config: ParameterServer, endpoint: Endpoint, run_id: str, begin: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._begin = begin
        self._vectors: list[ServedVector] = []
        self._handles: list[ServedHandle] = []
        self._reconnections = 0
        self._updates_lost = 0
        self._name = f"model-{run_id}" if config.shard_servers else "model"
        self._options = ServedOptions(
            config.shards,
            config.shard_servers,
            config.fetch_period,
            config.push_period,
            config.local_updates,
            config.staleness,
            config.staleness_limit,
            config.compensation,
        )

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        self._begin()
        handle = ServedHandle(self._options_for(len(initial)), self._next_name())
        vector = ServedVector(initial, options, self._endpoint, handle.name, handle.options, fresh=True)
        self._vectors.append(vector)
        self._handles.append(handle)
        return vector

    @property
    def handles(self) -> tuple[VectorHandle, ...]:
        """How workers access the vectors."""
        return tuple(self._handles)

    @property
    def version(self) -> int:
        """Version of the last fetched parameters of the first vector."""
        return self._vectors[0].version if self._vectors else 0

    @property
    def updates_lost(self) -> int:
        """As far as is known: servers are asked after a connection was lost, and again if one does not answer."""
        reconnections = sum(vector.reconnections for vector in self._vectors)
        if reconnections != self._reconnections:
            with contextlib.suppress(HeadraceError):
                self._updates_lost = lost_updates(self._endpoint, self._name, self._options.servers)
                self._reconnections = reconnections
        return self._updates_lost

    def close(self) -> None:
        """Closes the connections and drops the shards on additional servers, which no later run would replace."""
        for vector, handle in zip(self._vectors, self._handles, strict=True):
            vector.close()
            drop_shards(self._endpoint, handle.name, handle.options.servers)

    def _next_name(self) -> str:
        return f"{self._name}/vector-{len(self._handles)}" if self._handles else self._name

    def _options_for(self, count: int) -> ServedOptions:
        """Fewer shards for a vector of few parameters, such as SAC's temperature; the first must have all of them."""
        shards = min(self._options.shards, count) if self._handles else self._options.shards
        return dataclasses.replace(self._options, shards=shards, servers=self._options.servers[: shards - 1])
