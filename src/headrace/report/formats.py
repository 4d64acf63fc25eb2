"""Formats numbers for people."""

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["count", "counted", "duration", "earlier_policy", "number", "score_text", "size"]


def count(value: float) -> str:
    """1234567 -> "1,234,567"."""
    return f"{value:,.0f}"


def counted(amount: int, noun: str) -> str:
    """(1, "table") -> "1 table", (2000, "table") -> "2,000 tables"."""
    return f"{count(amount)} {noun}" + ("" if amount == 1 else "s")


def number(value: float | None, digits: int = 1) -> str:
    """12.345 -> "12.3"; None -> an en dash."""
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def score_text(value: float | None, spread: float | None = None) -> str:
    """A return with three digits at least, 219.34 -> "219.3" and 0.9645 -> "0.965"; with a spread, "0.965 ± 0.021"."""
    digits = 1 if not value or abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return number(value, digits) + ("" if spread is None else f" ± {number(spread, digits)}")


def duration(seconds: float) -> str:
    """3725 -> "1:02:05"; below an hour "2:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(count_bytes: float) -> str:
    """12345678 -> "12.3 MB", in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if count_bytes < 999.5:  # what rounds to 1000 is one of the next unit
            return f"{count_bytes:.3g} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:,.0f} TB" if count_bytes >= 999.5 else f"{count_bytes:.3g} TB"


def earlier_policy(summary: Mapping[str, Any]) -> str:
    """Of which policy a summary has the score, if not of the last one: ", after 246,120 steps"."""
    steps = summary.get("evaluation_environment_steps")
    return "" if steps in (None, summary.get("environment_steps")) else f", after {count(steps)} steps"
