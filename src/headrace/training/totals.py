"""From actors' totals to what is new."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Totals"]


class Totals:
    """The last counts and timings of every actor process; whatever reports get lost, the next makes up for them.

    `state` is what state() gave at a checkpoint: actors may outlive a learner. One thread.
    """

    def __init__(self, state: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._last: dict[str, Mapping[str, Any]] = dict(state or {})

    def news(self, report: Mapping[str, Any]) -> dict[str, Any] | None:
        """The report with what came since its writer's last one in place of totals; None for one from before that."""
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
        """What a resumed run goes on from, JSON-able."""
        return dict(self._last)
