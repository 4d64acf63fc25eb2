"""Publishes the learner's parameters in a background thread."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from headrace.clock import new_condition, new_lock, spend, start_thread
from headrace.errors import DivergenceError
from headrace.parameters.base import ParameterStore
from headrace.parameters.snapshot import Snapshot, SnapshotEncoder
from headrace.roles.handles import ParametersHandle, PolicyHandle

if TYPE_CHECKING:
    from headrace.networks.policy_graph import PolicyGraph

__all__ = ["Blobs", "Publisher", "graph_blobs", "parameter_blobs"]

Blobs = Mapping[str, bytes | memoryview]
"""The data published for one version, by name, in order of publication."""
_CLOSE_SECONDS = 5.0


def graph_blobs(graph: "PolicyGraph", policy: PolicyHandle) -> Callable[[Snapshot], Blobs]:
    """Encodes the full-precision policy that actors install, and its news."""
    return lambda snapshot: policy.blobs(graph.serialize(snapshot.weights), snapshot.taken)


def parameter_blobs(parameters: ParametersHandle) -> Callable[[Snapshot], Blobs]:
    """Encodes the parameters that the quantizer reads; the bytes are valid until the next snapshot is encoded."""
    encoder = SnapshotEncoder()
    return lambda snapshot: {parameters.name: encoder.encode(snapshot)}


class Publisher:
    """Encodes and publishes in its own thread, so that the learner never waits; the newest offer wins.

    Any thread may call it. Publishing a version again sends the same bytes.
    """

    def __init__(self, store: ParameterStore, encode: Callable[[Snapshot], Blobs]) -> None:
        self.version = 0
        """The newest published version."""
        self._store = store
        self._encode = encode
        self._publishing = new_lock()  # guards _encoded and version
        self._encoded: tuple[int, Blobs] = (0, {})
        self._changed = new_condition()  # guards _offered, _error and _closed
        self._offered: tuple[Snapshot, int] | None = None
        self._error: tuple[Exception, int] | None = None
        self._closed = False
        self._thread = start_thread(self._run, "publisher")

    def offer(self, snapshot: Snapshot, version: int) -> None:
        """Schedules a publication, unless a newer offer replaces it first.

        Raises the error of an earlier publication (a ServerError or worse), unless that version or a newer one has been
        published since.
        """
        with self._changed:
            error, self._error = self._error, None
            self._offered = (snapshot, version)
            self._changed.notify()
        if error is not None and error[1] > self.version:
            raise error[0]

    def publish(self, snapshot: Snapshot, version: int) -> None:
        """Publishes now and discards the pending offer; raises ServerError or DivergenceError."""
        with self._changed:
            self._offered = self._error = None
        self._send(snapshot, version)

    def close(self) -> None:
        """Ends the thread: drops an offer that was not started, and waits at most 5 s for one in progress.

        A call that waits for an unavailable server ends when the store is closed, which happens after this call.
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
                return  # a newer version was published in the meantime
            if version > self._encoded[0]:
                _require_finite(snapshot)  # in this thread, so the learner does not wait; a loss would show it too late
                self._encoded = (version, self._encode(snapshot))
                spend("encode")
            for name, data in self._encoded[1].items():
                self._store.publish(name, data, version)
            self.version = version


def _require_finite(snapshot: Snapshot) -> None:
    for name, value in snapshot.weights.items():
        if not np.isfinite(value).all():
            raise DivergenceError(
                f"training diverged: {name} of the policy is not finite; a smaller learning_rate is required"
            )
