"""Roles in simulated time: their own code in threads of this process, one at a time, in the order of a seed."""

from headrace.launch.simulated.costs import Costs
from headrace.launch.simulated.faults import Fault, read_fault_rate, read_faults
from headrace.launch.simulated.launcher import open_simulation
from headrace.launch.simulated.link import Link

__all__ = ["Costs", "Fault", "Link", "open_simulation", "read_fault_rate", "read_faults"]
