"""One process that acts and learns in turn."""

from headrace.topologies.serial.config import Serial

__all__ = ["Serial"]
