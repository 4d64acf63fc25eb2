"""The contract of everything that a run's experience, parameters and reports can go through."""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import Signature
from headrace.fields import read_json
from headrace.parameters.base import ParameterStore
from headrace.replay.batches import Allocate
from headrace.types import Batch

__all__ = ["LEARNER", "Batches", "Endpoint", "ReplayTable", "RoleServer", "RunServer", "shown"]

LEARNER = "learner"
"""The claim that a run's learner holds."""


@dataclass(frozen=True)
class Endpoint:
    """All that a role needs to reach its run's server; travels as JSON.

    `address` is tcp://HOST:PORT, unix:PATH, unix:@NAME or redis://HOST:PORT[/DB]. A run's names on the server are
    "RUN/NAME", or as they are where `run` is empty (a server that belongs to one run). `token_file` holds the secret
    that the server asks for, if it does. A lost connection is tried again for `reconnect_seconds`.
    """

    address: str
    run: str = ""
    token_file: str = ""
    reconnect_seconds: float = 0.0

    def name(self, name: str) -> str:
        """A run's own name for a table, blob, mailbox or claim."""
        return f"{self.run}/{name}" if self.run else name

    def to_json(self) -> str:
        """The endpoint as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Endpoint":
        """Reads what to_json() wrote."""
        return read_json(Endpoint, text, "an endpoint")


def shown(address: str) -> str:
    """An address as anybody may read it: without the password that one of a Redis may hold, well formed or not."""
    if address.startswith("unix:"):
        return address
    scheme, rest = re.fullmatch(r"(\w+:/+)?(.*)", address, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    login, _, place = rest.rpartition("@")
    user = login.partition(":")[0]
    return scheme + (f"{user}@" if user else "") + place


class RoleServer(ParameterStore, Protocol):
    """A run's server as one of its roles sees it; names are the run's own, without prefix.

    Every method may be called from any thread, and raises ClosedError once the run or the server is gone.
    """

    def version(self, name: str) -> int:
        """That of a blob, without its bytes; 0 where there is none."""

    def insert(self, table: str, *chunks: bytes) -> object:
        """Stores chunks in order, waiting for the limiter as long as it holds; together they cost one round trip."""

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message."""

    def claim(self, name: str, owner: int) -> None:
        """Takes a name for as long as this object is open; raises ReplayError where another owner holds it."""

    def close(self) -> None:
        """Ends the connection, from any thread; a call that waits raises ClosedError."""


class Batches(Protocol):
    """Batches that are ready before they are asked for. One consumer thread."""

    def next(self, timeout_seconds: float | None = None) -> Batch | None:
        """The next batch, valid until the next call; None at the deadline."""

    def close(self) -> None:
        """Stops what prepares them."""


class ReplayTable(Protocol):
    """A run's table as its learner sees it. Every method may be called from any thread."""

    @property
    def signature(self) -> Signature:
        """What one step looks like."""

    def batches_ahead(
        self, batch_size: int, importance_exponent: float, count: int, allocate: Allocate | None = None
    ) -> Batches:
        """Keeps `count` batches of B transitions ready; `allocate` as BatchBuffer's, if this process fills them."""

    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> object:
        """Sets priorities [B], at once or soon; those of overwritten transitions are dropped."""

    def set_paused(self, paused: bool) -> None:
        """Holds back inserts, and only these."""

    def stats(self) -> dict[str, float]:
        """Counts, bytes, ratio of samples to inserts."""

    def save(self, path: str) -> None:
        """Writes a snapshot; only where the server does not keep the experience itself."""

    def restore(self, path: str) -> None:
        """Takes a snapshot into an empty table."""

    def close(self) -> None:
        """Lets go whoever waits, and ends the actors: later inserts raise ClosedError."""


class RunServer(ParameterStore, Protocol):
    """A run's server as the training process sees it. Every method may be called from any thread."""

    @property
    def endpoint(self) -> Endpoint:
        """How roles reach it."""

    @property
    def keeps_experience(self) -> bool:
        """Whether experience outlives the training process there: then a checkpoint holds none."""

    def begin(self, *, fresh: bool) -> None:
        """What an earlier start of the run published goes, and `fresh` all else of it; add_table() does it at last."""

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> ReplayTable:
        """The run's table, with the options of `headrace._native.Table`; not `fresh`: with the experience it holds."""

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""

    def restarted(self) -> bool:
        """Whether the server was started anew since the last call: what was published is gone then.

        A table that it does not have any more is there again, empty. Raises ReplayError where that can't be.
        """

    def outages(self) -> int:
        """How many times a lost connection of this process was made again."""

    def close(self) -> None:
        """Ends connections and threads; an embedded server ends with it."""
