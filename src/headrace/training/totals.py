"""Turns actors' totals into increments."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Totals"]


class Totals:
    """The last counts and timings of every actor process; if a report is lost, the next one makes up for it.

    `state` is the result of state() from a checkpoint: actors may outlive a learner. One thread.
    """

    def __init__(self, state: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._last: dict[str, Mapping[str, Any]] = dict(state or {})

    def news(self, report: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the report with increments since the writer's last report for totals; None for an older report."""
        before = self._last.get(report["writer"], {"steps": 0, "episodes": 0, "seconds": {}})
        if report["steps"] < before["steps"]:
            return None
        self._last[report["writer"]] = {key: report[key] for key in ("steps", "episodes", "seconds")}
        return {
            **report,
            "steps": report["steps"] - before["steps"],
            "episodes": report["episodes"] - before["episodes"],
            "seconds": {
                phase: seconds - before["seconds"].get(phase, 0.0) for phase, seconds in report["seconds"].items()
            },
        }

    def state(self) -> dict[str, Any]:
        """JSON-able state for a resumed run."""
        return dict(self._last)
