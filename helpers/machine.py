"""What this machine can carry: its memory, measured in workers."""

from __future__ import annotations

import os
from pathlib import Path

WORKER_BYTES = 700_000_000  # a TensorFlow process that trains the lessons' model on MNIST
CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """How many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Bytes that new processes can take; None where the system does not tell.

    The smaller of what the machine has available and what its container (cgroup version 2)
    has left; files in the page cache count as free, as the kernel gives them up.
    """
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    left = _left_in_cgroup(cgroup)
    return free if left is None else max(0, min(free, left))


def _left_in_cgroup(cgroup: Path) -> int | None:
    try:
        limit = int((cgroup / "memory.max").read_text())  # the word "max" where there is none
        used = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return limit - used + int(stat["inactive_file"])
    except (OSError, KeyError, ValueError):
        return None
