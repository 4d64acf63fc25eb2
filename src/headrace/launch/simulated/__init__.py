"""Roles in simulated time: their own code in threads of this process, one at a time, in the order of a seed."""

from headrace.launch.simulated.config import Simulated

__all__ = ["Simulated"]
