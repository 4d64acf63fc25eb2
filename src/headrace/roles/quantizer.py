"""Converts the learner's parameters to policies that actors install (Krishnan et al. 2022, ActorQ)."""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from headrace.clock import Executor, Outcome, monotonic, new_executor, spend
from headrace.errors import ClosedError, error_line
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.networks.records import ILLEGAL
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder, PolicyEncoder
from headrace.parameters.snapshot import Snapshot, decode_snapshot
from headrace.roles.base import Role, RoleContext
from headrace.roles.handles import ParametersHandle, PolicyHandle
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import Quantized
from headrace.servers.base import RoleServer

__all__ = ["QuantizerRole"]

_POLL_SECONDS = 0.002
_CHECK_SECONDS = 2.0
"""Interval of checks that the server still has what was published: a restarted server does not."""
_MEASURE_SECONDS = 5.0
"""Interval of error measurements, each of which creates a full-precision session."""


@dataclass(frozen=True)
class QuantizerRole(Role):
    """Publishes a policy for every version of the parameters that it finds, except those it is too late for.

    Reports totals about once a second, and when stopped: versions, seconds spent on them, bytes, and the newest error.
    """

    kind: ClassVar[str] = "quantizer"
    ends_with_training: ClassVar[bool] = True

    architecture: Architecture
    precision: Precision
    communication_bits: int
    parameters: ParametersHandle
    policy: PolicyHandle

    def run(self, context: RoleContext) -> None:
        """Runs until stopped; ends with ClosedError when the server is gone, or a later start uses it."""
        with new_executor("error") as executor:
            server = context.connect()
            quantizer = _Quantizer(server, self, executor)
            alive = Heartbeat(self, server, context.stop, lambda: {"quantized": quantizer.figures()})
            try:
                while True:
                    alive()
                    if not quantizer.advance():
                        quantizer.check()
                        context.stop.wait(_POLL_SECONDS)
            except ClosedError:
                if not context.stop.is_set():
                    raise
            quantizer.finish()
            alive.send(context.connect(), {"quantized": quantizer.figures()})


class _Quantizer:
    """Publishes policies and measures them. One thread, and the executor's thread for measurements."""

    def __init__(self, server: RoleServer, role: QuantizerRole, executor: Executor) -> None:
        self._server = server
        self._role = role
        self._encoder = PolicyEncoder(role.architecture, role.precision, role.communication_bits)
        self._ruler = _Ruler(role)
        self._executor = executor
        self._measuring: Outcome[dict[str, Any]] | None = None
        self._error: dict[str, Any] | None = None
        self._blobs: dict[str, bytes] = {}
        self._version = self._versions = self._parameter_bytes = 0
        self._seconds = 0.0
        self._next_check = self._next_measurement = 0.0

    def advance(self) -> bool:
        """Converts newer parameters, if there are any, to a policy and publishes it; returns whether it did."""
        found = self._server.fetch(self._role.parameters.name, self._version)
        if found is None:
            return False
        begin = monotonic()
        snapshot = decode_snapshot(found[1])
        policy = self._encoder.encode(snapshot.weights)
        spend("quantize")
        self._seconds += monotonic() - begin
        self._version, self._versions = found[0], self._versions + 1
        self._parameter_bytes = sum(value.nbytes for value in snapshot.weights.values())
        self._blobs = self._role.policy.blobs(policy, snapshot.taken)
        self._publish()
        self._measure(snapshot, policy)
        return True

    def check(self) -> None:
        """Publishes again what a restarted server has lost, once the learner has published its parameters again.

        Raises ClosedError if the parameters there are older: a later start of the run has replaced this one.
        """
        now = monotonic()
        if not self._blobs or now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        source = self._server.version(self._role.parameters.name)
        if 0 < source < self._version:
            raise ClosedError(f"version {source} of the parameters follows {self._version}: another start has begun")
        if source == self._version and min(self._server.version(name) for name in self._blobs) < self._version:
            self._publish()

    def figures(self) -> Quantized:
        """Totals, and the newest error."""
        if self._measuring is not None and self._measuring.done():
            self.finish()
        return {
            "version": self._version,
            "versions": self._versions,
            "seconds": self._seconds,
            "bytes": len(self._blobs.get(self._role.policy.name, b"")),
            "parameter_bytes": self._parameter_bytes,
            "error": self._error,
        }

    def finish(self) -> None:
        """Waits for the error that is being measured, so that a short run has one too."""
        if self._measuring is not None:
            self._error, self._measuring = _outcome(self._measuring), None

    def _publish(self) -> None:
        for name, data in self._blobs.items():
            self._server.publish(name, data, self._version)

    def _measure(self, snapshot: Snapshot, policy: bytes) -> None:
        """Starts a measurement of the error in the background if the last one is long enough ago."""
        now = monotonic()
        if snapshot.probe is not None and self._measuring is None and now >= self._next_measurement:
            self._next_measurement = now + _MEASURE_SECONDS
            self._measuring = self._executor.submit(self._ruler.measure, snapshot, policy, self._version)


def _outcome(measuring: Outcome[dict[str, Any]]) -> dict[str, Any] | None:
    """Result of a measurement. If it failed, logs a line and returns None: actors have their policy regardless."""
    try:
        return measuring.result()
    except Exception as error:
        print(f"the error of a policy could not be measured: {error_line(error)}", file=sys.stderr, flush=True)
        return None


class _Ruler:
    """Measures how far the policy that actors install is from the full-precision policy. One thread."""

    def __init__(self, role: QuantizerRole) -> None:
        self._reference = PolicyGraph(role.architecture)
        self._decoder = PolicyDecoder(role.precision, role.communication_bits)

    def measure(self, snapshot: Snapshot, policy: bytes, version: int) -> dict[str, Any]:
        """Largest and mean |difference| of legal outputs on the probe's observations, and the largest |output|."""
        assert snapshot.probe is not None
        full = Policy(self._reference.serialize(snapshot.weights), version).output(snapshot.probe)
        installed = Policy(self._decoder.decode(policy), version).output(snapshot.probe)
        legal = full != ILLEGAL
        difference = np.abs(installed - full)[legal]
        return {
            "version": version,
            "rows": len(full),
            "largest": float(difference.max()),
            "mean": float(difference.mean()),
            "largest_output": float(np.abs(full[legal]).max()),
        }
