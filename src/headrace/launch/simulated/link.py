"""The simulated network between roles and their server."""

import math
import re
from dataclasses import dataclass

from headrace.errors import require
from headrace.values import parse_duration

__all__ = ["Link"]

_BITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_FORM = "a latency and a bandwidth, such as 50us,10Gbit"


@dataclass(frozen=True)
class Link:
    """The server's link, which all roles share: each direction carries one message after the other."""

    latency_seconds: float
    """Time from the last byte sent to its arrival."""
    bytes_per_second: float

    @staticmethod
    def parse(text: str) -> "Link":
        """Reads LATENCY,BANDWIDTH, such as 50us,10Gbit; raises ConfigError."""
        latency, _, bandwidth = text.partition(",")
        rate = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)bit(?:/s)?", bandwidth.strip().lower())
        try:
            seconds = parse_duration(latency)
        except ValueError:
            seconds = math.nan
        require("link", text, rate is not None and seconds >= 0, _FORM)
        assert rate is not None
        bits = float(rate[1]) * _BITS.get(rate[2], 1.0)
        require("link", text, bits > 0, _FORM)
        return Link(seconds, bits / 8)
