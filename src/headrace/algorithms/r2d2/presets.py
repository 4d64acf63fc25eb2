"""Settings that are known to work."""

from headrace.algorithms.config import Tuned

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {}
