"""Workers that act and learn and share parameters: under a lock, HogWild, AD-PSGD, or in a parameter server."""

from headrace.topologies.workers.config import Workers
from headrace.topologies.workers.parameter_server import ParameterServer
from headrace.topologies.workers.shared_memory import AdPsgd, Hogwild, Lock, SharedMemoryWorkers

__all__ = ["AdPsgd", "Hogwild", "Lock", "ParameterServer", "SharedMemoryWorkers", "Workers"]
