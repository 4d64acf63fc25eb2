"""The parameters that a run's workers share, as the training process creates and reads them."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Algorithm
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.flat import optimizer_options
from headrace.errors import ConfigError
from headrace.gradients.base import ParameterVector
from headrace.gradients.place import Mode, ServedPlace, SharedPlace, VectorPlace
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import OverseenVector
from headrace.servers import Endpoint, drop_shards
from headrace.topologies.config import AdPsgd, Hogwild, Lock, ParameterServer, Topology

__all__ = ["Parameters", "open_parameters"]


class Parameters(Protocol):
    """Shared parameters as the training process sees them. It opens them once, as an `OpenVector`."""

    def __call__(self, initial: NDArray[np.float32]) -> ParameterVector:
        """Creates the shared parameters [P] for the workers; the vector holds the newest."""

    @property
    def place(self) -> VectorPlace:
        """How workers access them, once they exist."""

    @property
    def version(self) -> int:
        """Number of updates applied, as far as is known without asking a server."""

    def close(self) -> None:
        """Closes connections and removes the run's shards from servers that outlive it; its workers have ended."""


def open_parameters(config: Topology, algorithm: Algorithm, endpoint: Endpoint, run_id: str = "") -> Parameters | None:
    """Creates the shared parameters of a worker topology; returns None for the other topologies.

    `run_id` separates this run's shards from others' on servers that several runs may use. Raises ConfigError if the
    algorithm is incompatible with the topology.
    """
    if not isinstance(config, Lock | Hogwild | AdPsgd | ParameterServer):
        return None
    if isinstance(algorithm, D4PG):
        raise ConfigError("algorithm is d4pg, whose workers can't share parameters: dqn or a3c is required")
    assert isinstance(algorithm, DQN | A3C)
    if isinstance(config, ParameterServer):
        if config.replay == "global" and isinstance(algorithm, A3C):
            raise ConfigError("replay is global and algorithm is a3c, which has none: leave replay out, or take dqn")
        return _Served(config, optimizer_options(algorithm), endpoint, run_id)
    return _Shared(config, optimizer_options(algorithm), live=not isinstance(algorithm, A3C))


class _Shared:
    """Parameters in memory of this machine; implements `Parameters`.

    `live` is False for on-policy algorithms: a rollout needs one fixed policy (Mnih et al. 2016, S3).
    """

    def __init__(self, config: Lock | Hogwild | AdPsgd, optimizer: OptimizerOptions, *, live: bool) -> None:
        self._config = config
        self._optimizer = optimizer
        self._live = live
        self._model: SharedModel | None = None

    def __call__(self, initial: NDArray[np.float32]) -> ParameterVector:
        config = self._config
        self._model = SharedModel.create(
            initial,
            self._optimizer,
            mode=self._mode,
            workers=config.worker_count,
            own_optimizer_state=isinstance(config, AdPsgd) or config.own_optimizer_state,
        )
        return OverseenVector(self._model)

    @property
    def place(self) -> VectorPlace:
        """How workers access them."""
        assert self._model is not None
        period = self._config.average_period if isinstance(self._config, AdPsgd) else 1
        return SharedPlace(self._model.path, self._mode, period, self._live)

    @property
    def version(self) -> int:
        """Number of updates applied."""
        return self._model.version if self._model is not None else 0

    def close(self) -> None:
        """No effect: the shared memory is released when its last user closes it."""

    @property
    def _mode(self) -> Mode:
        if isinstance(self._config, AdPsgd):
            return "ad-psgd"
        return "lock" if isinstance(self._config, Lock) else "hogwild"


class _Served:
    """Parameters in shards on servers; implements `Parameters`."""

    def __init__(self, config: ParameterServer, optimizer: OptimizerOptions, endpoint: Endpoint, run_id: str) -> None:
        self._endpoint = endpoint
        self._vector: ServedVector | None = None
        name = f"model-{run_id}" if config.shard_servers else "model"
        options = ServedOptions(
            optimizer,
            config.shards,
            config.shard_servers,
            config.fetch_period,
            config.push_period,
            config.staleness,
            config.staleness_limit,
            config.compensation,
        )
        self._place = ServedPlace(options, name)

    def __call__(self, initial: NDArray[np.float32]) -> ParameterVector:
        self._vector = ServedVector(initial, self._endpoint, self._place.name, self._place.options, fresh=True)
        return self._vector

    @property
    def place(self) -> VectorPlace:
        """How workers access them."""
        return self._place

    @property
    def version(self) -> int:
        """Version of the last fetched parameters."""
        return self._vector.version if self._vector is not None else 0

    def close(self) -> None:
        """Closes the connections and drops the shards on additional servers, which no later run would replace."""
        if self._vector is not None:
            self._vector.close()
            drop_shards(self._endpoint, self._place.name, self._place.options.servers)
