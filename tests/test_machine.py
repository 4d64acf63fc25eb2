"""What a process may use, under a root directory with control groups of either version."""

import os
from pathlib import Path

import pytest

from headrace import machine

NO_LIMIT = 9223372036854771712
V1_LINES = "9:memory:/a/b\n4:cpu,cpuacct:/a/b\n1:name=systemd:/\n"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A root directory; the machine has 16 cores and 64 GiB."""
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 24, "SC_PAGE_SIZE": 4096}.__getitem__)
    return tmp_path


def write(root: Path, files: dict[str, object]) -> None:
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


def test_without_control_groups_it_is_the_machines():
    assert machine.total_memory_bytes() == 1 << 36
    assert machine.available_cores() == 16


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        ("0::/a/b", {"a/b/memory.max": 700_000_000, "a/memory.max": "max"}, 700_000_000),
        ("0::/a/b", {"a/b/memory.max": 900_000_000, "a/memory.max": 500_000_000}, 500_000_000),
        ("0::/a/b", {"memory.max": 300_000_000}, 300_000_000),  # a container, under the host's path
        ("0::/../x", {"memory.max": 300_000_000}, 300_000_000),
        ("0::/", {"memory.max": "max"}, 1 << 36),
        (V1_LINES, {"memory/a/b/memory.limit_in_bytes": 700_000_000}, 700_000_000),
        (
            V1_LINES,
            {"memory/a/b/memory.limit_in_bytes": NO_LIMIT, "memory/a/memory.limit_in_bytes": 500_000_000},
            500_000_000,
        ),
        (V1_LINES, {"memory/memory.limit_in_bytes": 300_000_000}, 300_000_000),
        (V1_LINES, {"memory/a/b/memory.limit_in_bytes": NO_LIMIT}, 1 << 36),
        (V1_LINES, {"memory/a/other/memory.limit_in_bytes": 1}, 1 << 36),
        (V1_LINES + "0::/u\n", {"unified/u/memory.max": 200_000_000}, 200_000_000),
    ],
)
def test_memory_is_the_smallest_limit(root, cgroup, files, limit):
    write(root, {"proc/self/cgroup": cgroup, **{f"sys/fs/cgroup/{name}": value for name, value in files.items()}})
    assert machine.total_memory_bytes() == limit


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/a/b", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "max 100000"}, 4),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}, 2),
        ("0::/a", {"a/cpu.max": "50000 100000"}, 1),
        (V1_LINES, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": 300_000, "cpu,cpuacct/a/b/cpu.cfs_period_us": 100_000}, 3),
        (V1_LINES, {"cpu/a/cpu.cfs_quota_us": 300_000, "cpu/a/cpu.cfs_period_us": 100_000}, 3),
        (V1_LINES, {"cpu/a/b/cpu.cfs_quota_us": -1, "cpu/a/b/cpu.cfs_period_us": 100_000}, 16),
    ],
)
def test_cores_are_the_smallest_quota(root, cgroup, files, cores):
    write(root, {"proc/self/cgroup": cgroup, **{f"sys/fs/cgroup/{name}": value for name, value in files.items()}})
    assert machine.available_cores() == cores


def test_the_processor_has_the_kernel_s_name_or_that_of_its_architecture(root) -> None:
    assert machine.processor_name() == os.uname().machine
    write(root, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: Fast CPU @ 2.5GHz\nmodel name\t: Other"})
    assert machine.processor_name() == "Fast CPU @ 2.5GHz"
