"""The parameter vectors that a run's workers share, as the training process creates and reads them."""

import contextlib
import dataclasses

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.clock import random_bits
from headrace.errors import HeadraceError
from headrace.gradients.base import ParameterVector, SharedOptions
from headrace.gradients.handles import ServedHandle, SharedHandle, VectorHandle
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import OverseenVector
from headrace.servers import Endpoint, drop_earlier_shards, drop_shards, lost_updates
from headrace.topologies.config import Begin
from headrace.topologies.workers.parameter_server import require_connections

__all__ = ["MemoryVectors", "ServedVectors"]


class MemoryVectors:
    """Parameters in memory of this machine; implements `SharedVectors`.

    `live` is False for on-policy algorithms: a rollout needs one fixed policy (Mnih et al. 2016, S3).
    """

    def __init__(self, options: SharedOptions, workers: int, *, live: bool) -> None:
        self._options = options
        self._workers = workers
        self._live = live
        self._models: list[SharedModel] = []

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        """Creates the next vector [P]."""
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

    def give_up(self) -> None:
        """No effect: nothing waits for memory."""

    def close(self) -> None:
        """No effect: the shared memory is released when its last user closes it."""


class ServedVectors:
    """Parameters in shards on servers; implements `SharedVectors`.

    The shards of each start have other names: a worker that an earlier start left behind finds none, and cannot push to
    those of this start.
    """

    def __init__(
        self, name: str, options: ServedOptions, endpoint: Endpoint, begin: Begin | None, processes: int
    ) -> None:
        self._endpoint = endpoint
        self._begin = begin
        self._processes = processes
        self._vectors: list[ServedVector] = []
        self._handles: list[ServedHandle] = []
        self._reconnections = 0
        self._updates_lost = 0
        self._model = name
        self._name = f"{name}/{random_bits(32):08x}"
        self._options = options

    def __call__(self, initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        """Creates the shards of the next vector [P]."""
        handle = ServedHandle(self._options_for(len(initial)), self._next_name())
        shards = [each.options.shards for each in (*self._handles, handle)]
        require_connections(shards, 1 + len(self._options.servers), self._processes)
        prepare = self._drop_earlier if not self._handles else lambda: None
        self._handles.append(handle)  # before: a server that refuses its shards leaves those on the others
        vector = ServedVector(
            initial, options, self._endpoint, handle.name, handle.options, fresh=True, prepare=prepare
        )
        self._vectors.append(vector)
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

    def give_up(self) -> None:
        """Closes the connections, from any thread; a waiting call raises ClosedError."""
        for vector in self._vectors:
            vector.close()

    def close(self) -> None:
        """Closes the connections and drops the shards on additional servers, which no later run would replace."""
        self.give_up()
        for handle in self._handles:
            drop_shards(self._endpoint, handle.name, handle.options.servers)

    def _drop_earlier(self) -> None:
        if self._begin is not None:
            self._begin()
        drop_earlier_shards(self._endpoint, self._model, self._options.servers)

    def _next_name(self) -> str:
        return f"{self._name}/vector-{len(self._handles)}" if self._handles else self._name

    def _options_for(self, count: int) -> ServedOptions:
        """Fewer shards for a vector of few parameters, such as SAC's temperature; the first must have all of them."""
        shards = min(self._options.shards, count) if self._handles else self._options.shards
        return dataclasses.replace(self._options, shards=shards, servers=self._options.servers[: shards - 1])
