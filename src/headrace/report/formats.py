"""Formats numbers for people."""

import math

__all__ = ["count", "counted", "duration", "number", "size"]


def count(value: float) -> str:
    """1234567 -> "1,234,567"."""
    return f"{value:,.0f}"


def counted(amount: int, noun: str) -> str:
    """(1, "table") -> "1 table", (2000, "table") -> "2,000 tables"."""
    return f"{count(amount)} {noun}" + ("" if amount == 1 else "s")


def number(value: float | None, digits: int = 1) -> str:
    """12.345 -> "12.3"; None -> an en dash."""
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """3725 -> "1:02:05"; below an hour "2:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(count_bytes: float) -> str:
    """12345678 -> "12 MB", in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:.3g} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:.3g} TB"
