"""What this machine can carry: its memory, measured in workers."""

from __future__ import annotations

import os
from pathlib import Path

# A process that trains the lessons' model on MNIST: of that, what forks of one process share, which
# is TensorFlow itself, and what each has for itself.
SHARED_BYTES = 400_000_000
OWN_BYTES = 300_000_000
CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """How many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def needed_memory(processes: int, *, forked: bool) -> int:
    """Bytes that so many workers take together."""
    return processes * OWN_BYTES + SHARED_BYTES * (1 if forked else processes)


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
