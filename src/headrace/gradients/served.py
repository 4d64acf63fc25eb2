"""Parameters in shards of a server, which applies the gradients of all workers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace._native import GRADIENT_LIMIT, OptimizerOptions
from headrace.clock import spend
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.base import Applied
from headrace.servers import Endpoint, open_shards
from headrace.types import Array

__all__ = ["ServedOptions", "ServedVector", "add_gradient"]


@dataclass(frozen=True)
class ServedOptions:
    """How a model is sharded, and how often a worker communicates with the server."""

    shards: int = 1
    """Number of slices, each updated independently; assigned in rotation to the run's server and `servers`."""
    servers: tuple[str, ...] = ()
    """Addresses of additional servers for shards."""
    fetch_period: int = 1
    """Calls of apply() after which pull() polls for newer parameters again. It also polls if there was none since the
    last poll, and never while a sum is pending."""
    push_period: int = 1
    """Calls of apply() whose gradients are summed before they are sent."""
    local_updates: bool = False
    """Whether apply() also moves the worker's copy, by plain SGD, until the next fetch replaces it."""
    staleness: Literal["accept", "drop", "scale", "compensate"] = "accept"
    """How the server handles a stale gradient."""
    staleness_limit: int = 0
    """With drop: number of updates by others above which a gradient is dropped."""
    compensation: float = 0.0
    """With compensate: weight of the correction, lambda."""


class ServedVector:
    """A worker's copy of parameters in a server; implements `ParameterVector`.

    Between two polls a worker continues with its current parameters. Its own gradients appear in them only after the
    next fetch, or with local updates at once, as the learning rate times the gradient: the server's optimizer state is
    not here (Dean et al. 2012, section 4.1 and algorithm 7.1). Between two pushes gradients are summed, as in that
    paper, but nothing is fetched meanwhile, so a sum is as stale as each of its gradients. A sum that is pending at
    close() is lost.

    A restarted server that keeps its shards continues from their last save; the next pull() fetches those parameters.

    With `fresh`, existing shards of this name are dropped and new ones start with `initial`; otherwise existing shards
    are joined unchanged. `prepare` is called before, when all servers have been reached. Raises as `open_shards()`, and
    ServerError if the server's shards have other settings or do not exist: a restarted server without a data directory
    has lost them.
    """

    parameter_sets = 1

    def __init__(
        self,
        initial: NDArray[np.float32],
        optimizer: OptimizerOptions,
        endpoint: Endpoint,
        name: str,
        options: ServedOptions,
        *,
        fresh: bool,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        self._options = options
        self._local_rate = optimizer.learning_rate if options.local_updates else 0.0
        self.parameters = initial.copy()
        self.gradient = np.zeros_like(initial)
        self._sum = np.zeros_like(initial) if options.push_period > 1 else self.gradient
        self._summed = 0
        self._applied = 0  # since the last fetch
        self._outdated = False  # by what the server did with a gradient
        self._reconnections = 0  # before the last fetch
        self._model = open_shards(endpoint, name, len(initial), options.shards, options.servers)
        prepare()
        self._version = self._newest = self._model.open(
            optimizer,
            initial if fresh else None,
            fresh=fresh,
            policy=options.staleness,
            max_staleness=options.staleness_limit,
            compensation=options.compensation,
        )
        self._fetch()

    @property
    def reconnections(self) -> int:
        """Number of times that a lost connection was restored."""
        return self._model.reconnections

    @property
    def version(self) -> int:
        """Version of the last fetched parameters: of the first shard if there are several."""
        return self._version

    def pull(self) -> int:
        """Fetches newer parameters unless it is within the fetch period or a sum is pending; returns their version.

        After a lost connection or a dropped gradient it does not wait for the end of the period.
        """
        within_period = 0 < self._applied < self._options.fetch_period
        outdated = self._outdated or self._model.reconnections != self._reconnections
        if not self._summed and (outdated or not within_period):
            self._fetch()
        return self._version

    def apply(self) -> Applied:
        """Adds `gradient` to the sum, and sends the sum at the end of the push period.

        The version that it returns is the newest that is known: of the last fetch, or of a gradient sent since.

        A gradient that is not finite, or has a component of 2^60 and more, is refused at once and not added. After a
        dropped one the next pull() fetches. Neither moves the worker's copy.
        """
        self._applied += 1
        if self._options.push_period > 1:
            spend("sum")
            if not add_gradient(self._sum, self.gradient):
                return Applied(self._newest, -1, accepted=False)
            self._summed += 1
            if self._summed < self._options.push_period:
                self._move()
                return Applied(self._newest, None)
        version, staleness, verdict = self._model.push(self._sum)
        self._newest = max(self._newest, version)
        if self._options.push_period > 1:
            self._sum[:] = 0
            self._summed = 0
        if verdict == "dropped":
            self._outdated = True
        elif verdict == "accepted":
            self._move()
        return Applied(self._newest, -1 if verdict == "refused" else staleness, verdict == "accepted")

    def state(self) -> dict[str, Array]:
        """Parameters, moments [M, P] and steps from the server."""
        steps, values = self._model.state()
        return {"parameters": values[0].copy(), "moments": values[1:].copy(), "steps": np.array(steps)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned, for all workers; raises CheckpointError if shapes differ."""
        try:
            values = np.concatenate([state["parameters"][None], state["moments"]], dtype=np.float32)
            self._model.load(int(state["steps"]), values)
        except (KeyError, ValueError, ConfigError) as error:
            raise CheckpointError(f"the checkpoint's parameters do not fit these settings: {error}") from error
        self._fetch()

    def close(self) -> None:
        """Closes the connections, from any thread; a waiting call raises ClosedError. The shards are kept."""
        self._model.close()

    def _move(self) -> None:
        """Applies `gradient` to the worker's copy, with local updates."""
        if self._options.local_updates:
            self.parameters -= self._local_rate * self.gradient

    def _fetch(self) -> None:
        self._reconnections = self._model.reconnections  # before: one that is lost meanwhile leads to another fetch
        version = self._model.fetch_into(self.parameters)
        if version is not None:
            self._version = version
            self._newest = max(self._newest, version)
        self._applied, self._outdated = 0, False


def add_gradient(total: NDArray[np.float32], gradient: NDArray[np.float32]) -> bool:
    """Adds a gradient [P] to a sum [P]; returns False, without effect, for one that servers would refuse."""
    if not np.abs(gradient).max() < GRADIENT_LIMIT:  # true for NaN too
        return False
    total += gradient
    return True
