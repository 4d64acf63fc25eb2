"""The parameters that a run's workers share, as the training process makes and sees them."""

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
    """Shared parameters from the training process's side, which opens them once, as an `OpenVector`."""

    def __call__(self, initial: NDArray[np.float32]) -> ParameterVector:
        """Makes them [P] for the workers; the vector shows the newest."""

    @property
    def place(self) -> VectorPlace:
        """How workers reach them, once they are there."""

    @property
    def version(self) -> int:
        """Updates that they have had, as far as can be told without asking a server."""

    def close(self) -> None:
        """Ends connections, and removes what is the run's alone on servers that outlive it: its workers are gone."""


def open_parameters(config: Topology, algorithm: Algorithm, endpoint: Endpoint, run_id: str = "") -> Parameters | None:
    """What makes the parameters of a topology of workers; None for the others.

    `run_id` keeps the shards of this run apart from others' on servers that several runs may use. Raises ConfigError
    where the algorithm does not suit the topology.
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

    They are not `live` to whom acts and learns by the same ones: a rollout is of one policy (Mnih et al. 2016, S3).
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
        """How workers reach them."""
        assert self._model is not None
        period = self._config.average_period if isinstance(self._config, AdPsgd) else 1
        return SharedPlace(self._model.path, self._mode, period, self._live)

    @property
    def version(self) -> int:
        """Updates that they have had."""
        return self._model.version if self._model is not None else 0

    def close(self) -> None:
        """Nothing: the memory goes with who holds it."""

    @property
    def _mode(self) -> Mode:
        if isinstance(self._config, AdPsgd):
            return "ad-psgd"
        return "lock" if isinstance(self._config, Lock) else "hogwild"


class _Served:
    """Parameters in shards of servers; implements `Parameters`."""

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
        """How workers reach them."""
        return self._place

    @property
    def version(self) -> int:
        """Of what was fetched last."""
        return self._vector.version if self._vector is not None else 0

    def close(self) -> None:
        """Ends the connections, and drops the shards on further servers, where no later run takes their place."""
        if self._vector is not None:
            self._vector.close()
            drop_shards(self._endpoint, self._place.name, self._place.options.servers)
