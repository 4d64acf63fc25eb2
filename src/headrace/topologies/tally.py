"""Totals over all workers."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Counts", "Tally"]

Counts = Mapping[str, Any]
"""Numbers by name, or nested mappings of numbers; other values only where nothing is summed."""


class Tally:
    """Sums the totals that worker processes report, even if reports are lost: numbers by name, or mappings of them.

    One thread.
    """

    def __init__(self) -> None:
        self.sums: Counts = {}
        self._last: dict[str, Counts] = {}

    def add(self, writer: str, totals: Counts) -> Counts:
        """Adds one process's totals; returns the increments."""
        news = _merge(totals, self._last.get(writer, {}), -1)
        self._last[writer] = totals
        self.sums = _merge(news, self.sums, 1)
        return news

    def __getitem__(self, name: str) -> Any:
        """The sum of this name; 0 before the first report of it."""
        return self.sums.get(name, 0)


def _merge(new: Counts, old: Counts, sign: int) -> Counts:
    """`new` plus `sign` times `old`, by name; names that only `old` has are kept for sign > 0."""
    merged = dict(old) if sign > 0 else {}
    for name, value in new.items():
        if isinstance(value, Mapping):
            merged[name] = _merge(value, old.get(name, {}), sign)
        else:
            merged[name] = value + sign * old.get(name, 0)
    return merged
