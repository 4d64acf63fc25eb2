"""One figure of ours beside what was published and what is required."""

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Comparison", "asked", "at_least", "at_most"]


class Comparison(NamedTuple):
    """A row of comparisons.csv; `published` and `required` are empty where there is none.

    The verdict is holds, MISSED, undecided, or empty where nothing is required.
    """

    figure: str
    where: str
    ours: float | None
    published: str = ""
    required: str = ""
    verdict: str = ""
    note: str = ""

    @property
    def shortfall(self) -> float:
        """How far short of the limit, by the limit's size: above 0 it is missed. 0 where there is none of either."""
        limit = re.search(r"-?[\d.]+", self.required.replace(",", ""))
        if limit is None or self.ours is None:
            return 0.0
        value = float(limit[0])
        return (self.ours - value if self.required.startswith("<") else value - self.ours) / (abs(value) or 1.0)


def at_least(
    figure: str, where: str, ours: float, least: float | None, published: str = "", *, text: str = "", note: str = ""
) -> Comparison:
    """A figure that must be at least so much, if anything is required; `text` is how the limit is written."""
    if least is None:
        return Comparison(figure, where, ours, published, note=note)
    verdict = "holds" if ours >= least else "MISSED"
    return Comparison(figure, where, ours, published, f">= {text or f'{least:g}'}", verdict, note)


def at_most(
    figure: str, where: str, ours: float, most: float | None, published: str = "", *, note: str = ""
) -> Comparison:
    """A figure that must be at most so much, if anything is required."""
    if most is None:
        return Comparison(figure, where, ours, published, note=note)
    return Comparison(figure, where, ours, published, f"<= {most:g}", "holds" if ours <= most else "MISSED", note)


def asked(each: Comparison) -> str:
    """What is required and what was published."""
    parts: Iterable[tuple[str, str]] = (("required", each.required), ("published", each.published))
    return ", ".join(f"{word} {text}" for word, text in parts if text)
