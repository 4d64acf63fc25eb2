"""One measured figure, compared with the published and the required one."""

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Comparison", "asked", "at_least", "at_most", "judge_least", "judge_most"]


class Comparison(NamedTuple):
    """A row of comparisons.csv; `published` and `required` may be empty.

    The verdict is holds, MISSED, undecided, or empty if nothing is required.
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
        """Distance from the limit relative to its size: positive if it is missed, 0 without a limit or a figure."""
        limit = re.search(r"-?[\d.]+", self.required.replace(",", ""))
        if limit is None or self.ours is None:
            return 0.0
        value = float(limit[0])
        return (self.ours - value if self.required.startswith("<") else value - self.ours) / (abs(value) or 1.0)


def judge_least(ours: float, least: float | None, text: str = "") -> tuple[str, str]:
    """A minimum, in the usual notation or that of `text`, and the verdict; both empty without a minimum."""
    return ("", "") if least is None else (f">= {text or f'{least:g}'}", "holds" if ours >= least else "MISSED")


def judge_most(ours: float, most: float | None) -> tuple[str, str]:
    """A maximum and the verdict; both empty without a maximum."""
    return ("", "") if most is None else (f"<= {most:g}", "holds" if ours <= most else "MISSED")


def at_least(
    figure: str, where: str, ours: float, least: float | None, published: str = "", *, text: str = "", note: str = ""
) -> Comparison:
    """A figure with a minimum, if `least` is given; `text` replaces the usual notation of the limit."""
    return Comparison(figure, where, ours, published, *judge_least(ours, least, text), note)


def at_most(
    figure: str, where: str, ours: float, most: float | None, published: str = "", *, note: str = ""
) -> Comparison:
    """A figure with a maximum, if `most` is given."""
    return Comparison(figure, where, ours, published, *judge_most(ours, most), note)


def asked(each: Comparison) -> str:
    """The required and the published figure, in words."""
    parts: Iterable[tuple[str, str]] = (("required", each.required), ("published", each.published))
    return ", ".join(f"{word} {text}" for word, text in parts if text)
