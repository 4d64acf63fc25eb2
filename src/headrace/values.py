"""Numbers, durations and sizes as people write them: 200k, 1e6, 1_000_000; 90, 90s, 10m, 2h; 512M, 8G, 1.5GiB."""

import contextlib
import math
import re
import sys
from fractions import Fraction

__all__ = ["parse_count", "parse_duration", "parse_number", "parse_size"]

_MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_count(text: str) -> int:
    """A whole number: "200k" -> 200000, "1e6" -> 1000000, "-3" -> -3. Raises ValueError."""
    match = re.fullmatch(r"([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kmg]?)", text.strip().lower())
    if match is not None:
        digits, unit = match.groups()
        if re.fullmatch(r"[+-]?[0-9_]+", digits):
            return int(digits.rstrip("_").replace("_", "")) * _MULTIPLES[unit]
        value = Fraction(digits.replace("_", "")) * _MULTIPLES[unit]  # 4.1 million in floats is no whole number
        if value.denominator == 1:
            return value.numerator
    raise ValueError(f"{text} is not a count; write a whole number such as 200000, 200k or 1e6")


def parse_number(text: str) -> float:
    """Any finite number; a whole one as int: "0.5" -> 0.5, "1e-4" -> 0.0001, "1.5k" -> 1500. Raises ValueError."""
    with contextlib.suppress(ValueError, OverflowError):
        value = parse_count(text)
        if math.isfinite(value):  # overflows for numbers too large for a float
            return value
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise ValueError(f"{text} is not a number; write one such as 0.5, 1e-4 or 200")


def parse_duration(text: str) -> float:
    """Seconds: "90" and "90s" -> 90.0, "10m" -> 600.0, "1.5h" -> 5400.0, "50us" -> 0.00005. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?(?:e\+?[0-9]{1,2})?)\s*(us|ms|[smhd]?)", text.strip().lower())
    if match is None:
        raise ValueError(f"{text} is not a duration; write seconds or a unit: 90, 90s, 10m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(text: str) -> int:
    """Bytes: "512M" and "512MB" -> 512000000, "1.5GiB" -> 1610612736. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,999}(?:\.[0-9]{1,999})?)\s*(?:([kmgt]?)(i?)b?)", text.strip().lower())
    if match is None or (match[3] and not match[2]):
        raise ValueError(f"{text} is not a size; write bytes or a unit: 512M, 8G or 1.5GiB")
    size = Fraction(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2]]
    if size > sys.float_info.max:
        raise ValueError(f"{text:.20}... is not a size; it must be finite")
    return int(size)
