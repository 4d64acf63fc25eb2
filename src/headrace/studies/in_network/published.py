"""The published figures of in-network experience sampling."""

from typing import NamedTuple

from headrace.studies.published import read_published

__all__ = ["Published", "published_figures"]


class Published(NamedTuple):
    """One published figure, a range."""

    quantity: str
    low: float
    high: float
    direction: str
    """"decrease", "increase" and "share" in percent, "size" in MB."""

    def __str__(self) -> str:
        sign = {"decrease": "−", "increase": "+"}.get(self.direction, "")
        unit = "MB" if self.direction == "size" else "%"
        low, high = f"{sign}{self.low:g}", f"{sign}{self.high:g}"
        return f"{low} {unit}" if self.low == self.high else f"{low} to {high} {unit}"


def published_figures() -> dict[str, Published]:
    """The published figures, by quantity."""
    rows = read_published("in_network", "published.csv")
    return {
        row["quantity"]: Published(
            row["quantity"], float(row["low_percent"]), float(row["high_percent"]), row["direction"]
        )
        for row in rows
    }
