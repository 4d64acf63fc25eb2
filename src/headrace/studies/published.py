"""What a study's source reported."""

import csv
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Published", "load_published", "read_published"]


def read_published(study: str, name: str) -> list[dict[str, str]]:
    """The rows of a file with published figures in a study's folder, as text: not every cell is a number.

    The column `read` says how a figure was had: from a table, the text, a bar of a figure, the code, or derived.
    """
    text = (files("headrace.studies") / study / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@dataclass(frozen=True)
class Published:
    """One published figure, a range. `read`: had from a table, the text, a bar of a figure, the code, or derived."""

    quantity: str
    low: float
    high: float
    direction: str
    """"decrease" and "increase" in per cent, "share" in per cent, "size" in MB."""
    read: str

    def __str__(self) -> str:
        sign = {"decrease": "−", "increase": "+"}.get(self.direction, "")
        unit = "MB" if self.direction == "size" else "%"
        low, high = f"{sign}{self.low:g}", f"{sign}{self.high:g}"
        return f"{low} {unit}" if self.low == self.high else f"{low} to {high} {unit}"


def load_published(package: str) -> dict[str, Published]:
    """The figures in the package's published.csv, by quantity."""
    return {
        row["quantity"]: Published(
            row["quantity"], float(row["low_percent"]), float(row["high_percent"]), row["direction"], row["read"]
        )
        for row in read_published(package.rpartition(".")[2], "published.csv")
    }
