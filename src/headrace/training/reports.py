"""Receives the reports of a run's roles and dispatches them."""

import json
from collections.abc import Callable
from typing import cast

from headrace.clock import monotonic
from headrace.roles.messages import REPORTS, Acted, Planned, Quantized, Report
from headrace.roles.registry import role_class
from headrace.training.evaluation_schedule import EvaluationSchedule
from headrace.training.session import Session
from headrace.training.supervision import Supervisor

__all__ = ["Reports"]

_PERIOD_SECONDS = 0.1
_LONGEST_PERIOD_SECONDS = 5.0
_PLANNING_SECONDS = 1.0
_LONGEST_DRAIN_SECONDS = 1.0
"""A longer wait is no response time: the server was away, or did not answer for a while."""
_SHARE = 20
"""Polling a distant server takes at most one twentieth of the time."""


class Reports:
    """Dispatches reports: counts to the monitor, scores to the evaluation schedule, heartbeats to the supervisor.

    One thread. Reports of another run are ignored. So are those of roles that ended with an earlier start, whose
    generations are lower.
    """

    def __init__(self, session: Session, schedule: EvaluationSchedule, supervisor: Supervisor) -> None:
        self._session = session
        self._server, self._program, self._monitor = session.server, session.program, session.monitor
        self._schedule = schedule
        self._supervisor = supervisor
        self._measured_version = 0  # version of the quantizer's last measurement
        self._planned: dict[int, float] = {}  # time of each planner's last recorded report
        self._unrecorded: dict[int, dict[str, object]] = {}  # each planner's last figures, if they are not recorded
        self._drain_seconds = 0.0
        self.waited_seconds = 0.0
        """Seconds in which collect() has waited for the server."""

    @property
    def period_seconds(self) -> float:
        """Seconds to wait between two calls of collect(), derived from the server's last response time."""
        return min(max(_PERIOD_SECONDS, _SHARE * self._drain_seconds), _LONGEST_PERIOD_SECONDS)

    def collect(self, drained: Callable[[], object] = lambda: None) -> None:
        """Processes all reports that have arrived; calls `drained` once the server has answered."""
        figures = self._program.take_figures()
        if "acted" in figures:
            self._monitor.add(0, figures["acted"])
        if "planned" in figures:
            self._record_planning(0, 0, figures["planned"])
        outages, begin = self._server.outages(), monotonic()
        messages = self._server.drain(REPORTS)
        waited = monotonic() - begin
        self.waited_seconds += waited
        if self._server.outages() == outages and waited <= _LONGEST_DRAIN_SECONDS:
            self._drain_seconds = waited
        drained()
        for message in messages:
            self._take(json.loads(message))

    def finish(self) -> None:
        """Records the planners' last figures, however short the run was; called after they have ended."""
        for figures in self._unrecorded.values():
            self._session.record("planning", **figures)
        self._unrecorded.clear()

    def _take(self, report: Report) -> None:
        if role_class(report["role"]).ends_with_training and report["generation"] < self._session.first_generation:
            return
        if report.get("run_id", self._session.run_id) != self._session.run_id:
            return  # from an actor that still acts for an earlier run of this name
        if "acted" in report:
            self._count(report)
        if "answer" in report:
            self._schedule.receive(report["answer"])
        if "quantized" in report:
            self._record_error(report["quantized"])
        if "planned" in report:
            self._record_planning(report["index"], report["generation"], report["planned"])
        self._supervisor.receive(report)

    def _count(self, report: Report) -> None:
        """Counts what an actor or worker has done since its last report; ignores an older report."""
        acted, known = report["acted"], self._session.totals
        totals = {"steps": acted["steps"], "episodes": acted["episodes"], "seconds": acted["seconds"]}
        if acted["steps"] >= known.last(report["writer"]).get("steps", 0):
            increments = known.add(report["writer"], totals)
            self._monitor.add(report["index"], cast(Acted, {**increments, "returns": acted["returns"]}))
            self._program.receive(report)

    def _record_planning(self, index: int, generation: int, planned: Planned) -> None:
        """Records what a planner has done since its start, about once a second."""
        seconds = self._session.clock.seconds
        self._unrecorded[index] = {"index": index, "generation": generation, **planned}
        if seconds >= self._planned.get(index, 0.0) + _PLANNING_SECONDS:
            self._planned[index] = seconds
            self._session.record("planning", **self._unrecorded.pop(index))

    def _record_error(self, quantized: Quantized) -> None:
        """Records the quantizer's newest measurement of its policies' error."""
        error = quantized["error"]
        if error is not None and error["version"] > self._measured_version:
            self._measured_version = error["version"]
            sizes = {"bytes": quantized["bytes"], "parameter_bytes": quantized["parameter_bytes"]}
            self._session.record("quantization", **error, **sizes)
