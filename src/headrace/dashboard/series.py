"""Columns of numbers over a run's time, thinned so that a run of any length takes the same memory."""

from collections.abc import Mapping, Sequence

__all__ = ["Series"]

Point = Sequence[float | None]


class Series:
    """Rows of the same columns, the first of which is training time in seconds and increases.

    From `most` rows on, pairs of neighbors become their mean, and later rows are averaged in larger groups. The last
    rows are also kept as they came, for readers that have those before. Not thread-safe.
    """

    def __init__(self, columns: Sequence[str], most: int = 1_000, recent: int = 64) -> None:
        self.columns = tuple(columns)
        self._most = most
        self._recent = recent
        self.clear()

    def clear(self) -> None:
        """Removes all rows."""
        self._rows: list[Point] = []
        self._group: list[Point] = []
        self._stride = 1
        self._latest: list[Point] = []
        self.total = 0
        """Number of rows added since the last clear()."""

    def add(self, row: Point) -> None:
        """Adds a row: a number or None for each column."""
        assert len(row) == len(self.columns)
        self.total += 1
        self._latest = [*self._latest[-self._recent + 1 :], row]
        self._group.append(row)
        if len(self._group) < self._stride:
            return
        self._rows.append(_mean(self._group))
        self._group = []
        if len(self._rows) >= self._most:
            self._rows = [_mean(self._rows[place : place + 2]) for place in range(0, len(self._rows), 2)]
            self._stride *= 2

    def cut(self, seconds: float) -> None:
        """Removes rows after this time, which a resumed run repeats."""
        self._rows, self._group = (
            [row for row in rows if (row[0] or 0.0) <= seconds] for rows in (self._rows, self._group)
        )
        self._latest = []

    def rows(self) -> list[Point]:
        """All rows, thinned; rows of an incomplete group are one."""
        return [*self._rows, *([_mean(self._group)] if self._group else [])]

    def since(self, total: int) -> list[Point] | None:
        """The rows added after the first `total`, unthinned; None if they are not kept."""
        count = self.total - total
        if not 0 <= count <= len(self._latest):
            return None
        return self._latest[len(self._latest) - count :]

    def transpose(self, rows: Sequence[Point]) -> Mapping[str, list[float | None]]:
        """Rows as columns."""
        return {name: [row[index] for row in rows] for index, name in enumerate(self.columns)}


def _mean(rows: Sequence[Point]) -> Point:
    """The mean of each column's numbers; None where there is none."""
    if len(rows) == 1:
        return rows[0]
    means: list[float | None] = []
    for values in zip(*rows, strict=True):
        known = [value for value in values if value is not None]
        means.append(sum(value / len(known) for value in known) if known else None)  # the sum itself may overflow
    return means
