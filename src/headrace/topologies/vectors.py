"""The parameter vectors that a run's workers share, as the training process creates and reads them."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError, HeadraceError
from headrace.gradients.base import OpenVector, ParameterVector
from headrace.gradients.handles import Mode, ServedHandle, SharedHandle, VectorHandle
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import OverseenVector
from headrace.servers import Endpoint, drop_shards, lost_updates
from headrace.topologies.config import AdPsgd, Hogwild, Lock, ParameterServer, Topology

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
    first shard is created. Raises ConfigError if the algorithm is incompatible with the topology.
    """
    if isinstance(config, ParameterServer):
        if config.replay == "global" and algorithm.replay is None:
            raise ConfigError(
                f"replay is global and algorithm is {algorithm.name}, which has none: leave replay out, or take an "
                "algorithm that learns from replay"
            )
        rate = algorithm.statistics_rate
        if rate and rate * config.push_period >= 1:
            raise ConfigError(
                f"push_period is {config.push_period} and algorithm is {algorithm.name}, whose statistics move by "
                f"{rate:g} of their distance from a batch's: less than {1 / rate:g} is required, or they diverge"
            )
        if config.staleness == "compensate" and rate:
            raise ConfigError(
                f"staleness is compensate and algorithm is {algorithm.name}, which averages statistics: staleness "
                "accept, drop or scale is required, since the correction is one of a loss's gradients"
            )
        return _Served(config, endpoint, run_id, begin)
    if isinstance(config, AdPsgd) and config.l1_penalty > 0 and algorithm.statistics_rate:
        raise ConfigError(
            f"l1_penalty is {config.l1_penalty:g} and algorithm is {algorithm.name}, which averages statistics: 0 is "
            "required, since the penalty is one of a network's parameters"
        )
    if isinstance(config, Lock | Hogwild | AdPsgd):
        return _Shared(config, live=algorithm.rollouts is None)
    return None


def open_saved_vectors(config: Topology) -> OpenVector | None:
    """Opens vectors that a run's checkpoint fits, outside of a run; None if the updater's own vectors do."""
    return _Shared(config, live=False) if isinstance(config, Lock | Hogwild | AdPsgd) else None


class _Shared:
    """Parameters in memory of this machine; implements `SharedVectors`.

    `live` is False for on-policy algorithms: a rollout needs one fixed policy (Mnih et al. 2016, S3).
    """

    def __init__(self, config: Lock | Hogwild | AdPsgd, *, live: bool) -> None:
        self._config = config
        self._live = live
        self._models: list[SharedModel] = []

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        config = self._config
        model = SharedModel.create(
            initial,
            options,
            mode=self._mode,
            workers=config.acting_processes,
            own_optimizer_state=isinstance(config, AdPsgd) or config.own_optimizer_state,
            # A vector of one number is no network: SAC's temperature.
            l1_penalty=config.l1_penalty if isinstance(config, AdPsgd) and len(initial) > 1 else 0.0,
        )
        self._models.append(model)
        return OverseenVector(model)

    @property
    def handles(self) -> tuple[VectorHandle, ...]:
        """How workers access the vectors."""
        period = self._config.average_period if isinstance(self._config, AdPsgd) else 1
        return tuple(SharedHandle(model.path, self._mode, period, self._live) for model in self._models)

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

    @property
    def _mode(self) -> Mode:
        if isinstance(self._config, AdPsgd):
            return "ad-psgd"
        return "lock" if isinstance(self._config, Lock) else "hogwild"


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
