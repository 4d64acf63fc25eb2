"""What all workers have done together."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Counts", "Tally"]

Counts = Mapping[str, Any]
"""Numbers by name, or mappings of such; other values only in what is not added up."""


class Tally:
    """Sums of what worker processes report as totals, whatever reports get lost: numbers by name, or mappings of such.

    One thread.
    """

    def __init__(self) -> None:
        self.sums: Counts = {}
        self._last: dict[str, Counts] = {}

    def add(self, writer: str, totals: Counts) -> Counts:
        """Takes in one process's totals; what is new in them."""
        news = _merge(totals, self._last.get(writer, {}), -1)
        self._last[writer] = totals
        self.sums = _merge(news, self.sums, 1)
        return news

    def __getitem__(self, name: str) -> Any:
        """The sum of that name; 0 before anyone has told of it."""
        return self.sums.get(name, 0)


def _merge(new: Counts, old: Counts, sign: int) -> Counts:
    """`new` and `sign` times `old`, added by name; what only `old` has stays where they are added."""
    merged = dict(old) if sign > 0 else {}
    for name, value in new.items():
        if isinstance(value, Mapping):
            merged[name] = _merge(value, old.get(name, {}), sign)
        else:
            merged[name] = value + sign * old.get(name, 0)
    return merged
