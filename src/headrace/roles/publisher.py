"""Publishes the learner's parameters beside its work."""

import threading
from collections.abc import Callable, Mapping

import numpy as np

from headrace.errors import DivergenceError
from headrace.networks import PolicyGraph
from headrace.parameters.base import ParameterStore
from headrace.parameters.snapshot import Snapshot, encode_snapshot
from headrace.roles.base import NEWS, PARAMETERS, POLICY

__all__ = ["Blobs", "Publisher", "graph_blobs", "parameter_blobs"]

Blobs = Mapping[str, bytes | memoryview]
"""What is published of one version, by name, in the order in which it is."""
_CLOSE_SECONDS = 5.0


def graph_blobs(graph: PolicyGraph) -> Callable[[Snapshot], Blobs]:
    """Publishes what actors install: full precision."""
    return lambda snapshot: {POLICY: graph.serialize(snapshot.weights), NEWS: snapshot.taken.to_json().encode()}


def parameter_blobs(snapshot: Snapshot) -> Blobs:
    """Publishes what the quantizer takes up."""
    return {PARAMETERS: encode_snapshot(snapshot)}


class Publisher:
    """Encodes and publishes in a thread of its own, so that a learner never waits; the newest offer wins.

    Any thread may call it. A version that is published again is published with the same bytes.
    """

    def __init__(self, store: ParameterStore, encode: Callable[[Snapshot], Blobs]) -> None:
        self.version = 0
        """The newest that was published."""
        self._store = store
        self._encode = encode
        self._publishing = threading.Lock()  # guards the one below, and version
        self._encoded: tuple[int, Blobs] = (0, {})
        self._changed = threading.Condition()  # guards the three below
        self._offered: tuple[Snapshot, int] | None = None
        self._error: tuple[Exception, int] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def offer(self, snapshot: Snapshot, version: int) -> None:
        """Publishes soon, unless a newer offer comes before.

        Raises what an earlier one met, a ReplayError or worse, unless that version or a newer one went out since.
        """
        with self._changed:
            error, self._error = self._error, None
            self._offered = (snapshot, version)
            self._changed.notify()
        if error is not None and error[1] > self.version:
            raise error[0]

    def publish(self, snapshot: Snapshot, version: int) -> None:
        """Publishes now, in place of what was offered; raises ReplayError, or DivergenceError."""
        with self._changed:
            self._offered = self._error = None
        self._send(snapshot, version)

    def close(self) -> None:
        """Ends the thread; what was offered and not begun is dropped, and what is on its way waited for, 5 s at most.

        A call that waits for a server that is away ends when the store is closed, which comes after this.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._offered)
                if self._closed:
                    return
                assert self._offered is not None
                (snapshot, version), self._offered = self._offered, None
            try:
                self._send(snapshot, version)
            except Exception as error:
                with self._changed:
                    self._error = (error, version)
            del snapshot

    def _send(self, snapshot: Snapshot, version: int) -> None:
        with self._publishing:
            if version < self._encoded[0]:
                return  # a thread that was overtaken has nothing to say
            if version > self._encoded[0]:
                _require_finite(snapshot)  # here, where nobody waits: actors would meet it before a loss tells
                self._encoded = (version, self._encode(snapshot))
            for name, data in self._encoded[1].items():
                self._store.publish(name, data, version)
            self.version = version


def _require_finite(snapshot: Snapshot) -> None:
    for name, value in snapshot.weights.items():
        if not np.isfinite(value).all():
            raise DivergenceError(
                f"training diverged: {name} of the policy is not finite; a smaller learning_rate is required"
            )
