"""What this process may use of the machine: cores, memory, GPUs.

A container's limits count as the machine's own: those of control groups, version 2, on the way from
this process's group up to the root
(https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max and memory.max).
"""

from __future__ import annotations

import glob
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path

# A process that trains the lessons' model on MNIST: of that, what forks of one process share, which
# is TensorFlow itself, and what each has for itself.
SHARED_BYTES = 400_000_000
OWN_BYTES = 300_000_000

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")


def cores() -> int:
    """How many CPU cores' time this process may use, at least 1.

    The cores it may run on or, where its container has a smaller share of their time, that share,
    rounded up.
    """
    available = len(_affinity()) or os.cpu_count() or 1
    return max(1, min([available, *map(math.ceil, _quotas())]))


def share_cores(workers: int) -> list[list[int]]:
    """Deals this process's CPU cores out to `workers` workers.

    Each worker gets the same number of cores, at least one; with more workers than
    cores, several share one. On two cores, pinning two workers this way and giving each
    one thread per core made training 1.3 times as fast as leaving it to the scheduler.

    Returns: for each worker, the numbers of its cores; empty lists where the operating
      system cannot pin.
    """
    numbers = _affinity()
    if not numbers:
        return [[] for worker in range(workers)]
    if (count := cores()) < len(numbers):
        # Other containers choose too: with chance, they rarely choose the same.
        numbers = sorted(random.sample(numbers, count))
    each = max(1, len(numbers) // workers)
    return [[numbers[(i * each + k) % len(numbers)] for k in range(each)] for i in range(workers)]


def pin(numbers: list[int]) -> None:
    """Binds this process to these cores; to none in particular, if there are no numbers."""
    if numbers:
        os.sched_setaffinity(0, numbers)


def nvidia_gpus() -> int:
    """How many NVIDIA devices the driver shows, without loading TensorFlow."""
    return len(glob.glob("/dev/nvidia[0-9]*"))


def needed_memory(processes: int, *, forked: bool) -> int:
    """Bytes that so many workers take together."""
    return processes * OWN_BYTES + SHARED_BYTES * (1 if forked else processes)


def free_memory() -> int | None:
    """Bytes that new processes can take; None where the system does not tell.

    The smallest of what the machine has available and what its containers have left; files in the
    page cache count as free, as the kernel gives them up.
    """
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    left = [bytes_left for group in _groups() if (bytes_left := _left(group)) is not None]
    return max(0, min([free, *left]))


def _affinity() -> list[int]:
    """The numbers of the cores this process may run on; empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _groups() -> Iterator[Path]:
    """The folders of this process's control group and of those it lies in, as far as it sees."""
    try:
        [own] = [
            line.removeprefix("0::/")
            for line in OWN_CGROUP.read_text().splitlines()
            if line.startswith("0::/")
        ]
    except (OSError, ValueError):
        own = ""
    parts = [part for part in Path(own).parts if part != ".."]  # of a group above the container's
    for depth in range(len(parts), -1, -1):
        yield CGROUP.joinpath(*parts[:depth])


def _quotas() -> Iterator[float]:
    """The shares of time that groups may use, in cores."""
    for group in _groups():
        try:
            quota, period = (group / "cpu.max").read_text().split()
            yield int(quota) / int(period)  # the word "max" where there is no limit
        except (OSError, ValueError, ZeroDivisionError):
            continue


def _left(group: Path) -> int | None:
    """Bytes that a group has left; None where it has no limit."""
    try:
        limit = int((group / "memory.max").read_text())  # the word "max" where there is none
        used = int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return limit - used + int(stat["inactive_file"])
    except (OSError, KeyError, ValueError):
        return None
