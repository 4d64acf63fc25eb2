"""The shards of a simulated run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, ShardedModel
from headrace.clock import serve
from headrace.errors import ConfigError, ServerError
from headrace.servers.base import Endpoint, shown
from headrace.servers.simulated import find_server
from headrace.servers.simulated_connections import answer, send

__all__ = ["SimulatedShards"]


class SimulatedShards:
    """A model in shards of the run's server, over a simulated link; has the methods of `ShardedModel`.

    The training process, which makes the shards, reaches them without the link.
    """

    def __init__(self, endpoint: Endpoint, name: str, count: int, shards: int, servers: Sequence[str]) -> None:
        if servers:
            raise ConfigError(
                f"shard_servers is {' '.join(map(shown, servers))}; it must be left out with launcher simulated"
            )
        self._server = find_server(endpoint.address)
        self._model = ShardedModel([self._server.listen_for_shards()], name, count, shards=shards)
        self._bytes = 4 * count
        self._linked = True

    @property
    def reconnections(self) -> int:
        """Number of times that the server was away."""
        return self._server.outages()

    def open(
        self, optimizer: OptimizerOptions, initial: NDArray[np.float32] | None, *, fresh: bool, **options: Any
    ) -> int:
        """Makes or joins the shards; see `ShardedModel`."""
        self._linked = not fresh
        self._ask(0)
        version = self._model.open(optimizer, initial, fresh=fresh, **options)
        self._answer(0)
        return version

    def push(self, gradient: NDArray[np.float32]) -> tuple[int, int, str]:
        """Applies a gradient [P]; see `ShardedModel`."""
        self._ask(self._bytes)
        serve("apply")
        pushed = self._model.push(gradient)
        self._answer(self._bytes)
        return pushed

    def fetch_into(self, parameters: NDArray[np.float32]) -> int | None:
        """Brings [P] up to date; see `ShardedModel`."""
        self._ask(0)
        version = self._model.fetch_into(parameters)
        self._answer(0, 0 if version is None else self._bytes)
        return version

    def state(self) -> tuple[int, NDArray[np.float32]]:
        """Version, and parameters and moments [1 + M, P]."""
        self._ask(0)
        return self._model.state()

    def load(self, version: int, state: NDArray[np.float32]) -> None:
        """Puts back what state() gave."""
        self._ask(state.nbytes)
        self._model.load(version, state)

    def close(self) -> None:
        """Closes the connection."""
        self._model.close()

    def _ask(self, count: int) -> None:
        if self._linked:
            send(count)
        self._server.reach()
        if self._server.lost_shards:
            raise ServerError("the server was restarted and has no shards of this model any more")

    def _answer(self, sent: int, count: int = 0) -> None:
        if self._linked:
            answer(sent, count)
