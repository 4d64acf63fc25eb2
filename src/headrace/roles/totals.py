"""Turns the totals that processes report into increments and sums."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Counts", "Totals"]

Counts = Mapping[str, Any]
"""Numbers by name, or nested mappings of numbers; other values only where nothing is summed."""


class Totals:
    """The last totals of every process, and their sums; if a report is lost, the next one makes up for it.

    `state` is the result of state() from a checkpoint: actors may outlive a learner. One thread.
    """

    def __init__(self, state: Mapping[str, Counts] | None = None) -> None:
        self.sums: Counts = {}
        """Sums of the increments that this object has returned."""
        self._last: dict[str, Counts] = dict(state or {})

    def last(self, writer: str) -> Counts:
        """The last totals of one process; empty before the first."""
        return self._last.get(writer, {})

    def add(self, writer: str, totals: Counts) -> Counts:
        """Adds one process's totals; returns the increments since its last ones."""
        increments = _merge(totals, self.last(writer), -1)
        self._last[writer] = totals
        self.sums = _merge(increments, self.sums, 1)
        return increments

    def __getitem__(self, name: str) -> Any:
        """The sum of this name; 0 before the first report of it."""
        return self.sums.get(name, 0)

    def state(self) -> dict[str, Any]:
        """JSON-able last totals of every process, for a resumed run."""
        return dict(self._last)


def _merge(new: Counts, old: Counts, sign: int) -> Counts:
    """`new` plus `sign` times `old`, by name; names that only `old` has are kept for sign > 0."""
    merged = dict(old) if sign > 0 else {}
    for name, value in new.items():
        if isinstance(value, Mapping):
            merged[name] = _merge(value, old.get(name, {}), sign)
        else:
            merged[name] = value + sign * old.get(name, 0)
    return merged
