"""What this machine offers."""

import os
from pathlib import Path

__all__ = ["available_cores", "total_memory_bytes"]

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


def available_cores() -> int:
    """Processor cores that this process may use: its affinity, cut to a container's quota."""
    cores = len(os.sched_getaffinity(0))
    quota, _, period = _read(_CPU_QUOTA).partition(" ")
    return max(1, min(cores, int(quota) // int(period))) if quota.isdigit() else cores


def total_memory_bytes() -> int:
    """Memory that this process may hope for: the machine's, cut to a container's limit."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _read(_MEMORY_LIMIT).strip()
    return min(memory, int(limit)) if limit.isdigit() else memory


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
