"""Processor, cores, memory and open files that this machine offers."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from headrace.clock import simulated_cores

__all__ = [
    "SERVER_MEMORY_SHARE",
    "available_cores",
    "processor_name",
    "raise_descriptor_limit",
    "server_memory_bytes",
    "total_memory_bytes",
]

SERVER_MEMORY_SHARE = 0.8
"""Share of the memory that a standalone server uses if no limit is given."""
_ROOT = Path("/")


def available_cores() -> int:
    """Number of cores that this process may use: its affinity, limited by the quotas of its control groups.

    In a simulated run it is that of the simulated machine.
    """
    if simulated := simulated_cores():
        return simulated
    cores = [len(os.sched_getaffinity(0))]
    for group in _groups("cpu"):
        quota, _, period = _read(group / "cpu.max").partition(" ")
        if not quota:
            quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # "max" and -1 are none
            cores.append(int(quota) // int(period))
    return max(1, min(cores))


def processor_name() -> str:
    """The processor's name as Linux reports it; elsewhere that of its architecture."""
    try:
        lines = (_ROOT / "proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def total_memory_bytes() -> int:
    """Bytes of memory available to this process: the machine's, limited by its control groups."""
    memory = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(group / name)
            if limit.isdigit():
                memory.append(int(limit))
    return min(memory)


def server_memory_bytes() -> int:
    """Bytes that a standalone server uses if no limit is given."""
    return int(SERVER_MEMORY_SHARE * total_memory_bytes())


def raise_descriptor_limit() -> None:
    """Lets this process open as many files as the system allows: each connection of a server takes one or more."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that limit this process, versions 1 and 2, each up to the root of its hierarchy.

    A container may see its own group as the root while the path is the host's: folders that do not exist are skipped.
    """
    mount = _ROOT / "sys/fs/cgroup"
    found = {mount: "", mount / controller: ""}
    for line in _read(_ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2, in a separate folder if version 1 is mounted too
            found |= {mount: path, mount / "unified": path}
        elif controller in controllers.split(","):
            found |= {mount / controllers: path, mount / controller: path}
    for root, path in found.items():
        names = [name for name in path.split("/") if name]
        for depth in range(len(names), -1, -1):
            if ".." not in names[:depth]:
                yield root.joinpath(*names[:depth])


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
