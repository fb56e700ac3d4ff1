"""The resources of the machine that this process may use: cores, memory, GPUs.

The limits of a container count as limits of the machine. They are the limits of the control groups
from this process's group up to the root. Version 2 has one tree of groups. Version 1, which older
systems and some sandboxes still use, has one tree for each kind of limit
(https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max and memory.max;
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html;
https://docs.kernel.org/scheduler/sched-bwc.html).
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path

from helpers.system import capabilities

# The memory of a process that trains the lessons' model on MNIST: the part that forks share, which
# is TensorFlow itself, and the part of each process.
SHARED_BYTES = 400_000_000
PRIVATE_BYTES = 300_000_000
IMPORT_ONLY_BYTES = 50_000_000  # the private part after only importing TensorFlow

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")
VMSTAT = Path("/proc/vmstat")
NVIDIA = "/dev/nvidia[0-9]*"
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
# The files of version 2 and of version 1: quota and period, then limit, use, and page cache.
CPU_FILES = ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def cores() -> int:
    """The number of CPU cores that this process may use, at least 1.

    These are the cores it may run on. If its container has a smaller share of their time, it is
    that share, rounded up.
    """
    available = len(_affinity()) or os.cpu_count() or 1
    return max(1, min([available, *map(math.ceil, _cgroup_limits())]))


def share_cores(workers: int) -> list[list[int]]:
    """Divides the CPU cores of this process among `workers` workers.

    Each worker gets the same number of cores, at least one. With more workers than cores, several
    share one. On two cores, with two workers pinned this way and one thread per core, training was
    1.3 times as fast as with the system's scheduling.

    Returns: for each worker, the numbers of its cores, or empty lists if the operating system
      cannot pin.
    """
    numbers = _affinity()
    if not numbers:
        return [[] for worker in range(workers)]
    if (count := cores()) < len(numbers):
        # Other containers choose too, and random choices rarely collide.
        numbers = sorted(random.sample(numbers, count))
    each = max(1, len(numbers) // workers)
    return [[numbers[(i * each + k) % len(numbers)] for k in range(each)] for i in range(workers)]


def pin_to_cores(numbers: list[int]) -> None:
    """Binds this process to these cores, if the operating system can.

    An empty list removes the binding.
    """
    if numbers and capabilities.has_affinity():
        os.sched_setaffinity(0, numbers)


def visible_gpus() -> list[str]:
    """The NVIDIA devices of the driver that CUDA_VISIBLE_DEVICES permits, without TensorFlow.

    Returns: their numbers, or their names in the variable.
    """
    devices = [str(number) for number in range(len(glob.glob(NVIDIA)))]
    named = os.environ.get(VISIBLE_GPUS)
    if named is None or not devices:
        return devices
    # Like CUDA, which stops reading at an invalid name.
    names = (name.strip() for name in named.split(","))
    return [*itertools.takewhile(lambda name: name not in ("", "-1"), names)]


def nvidia_gpus() -> int:
    """The number of NVIDIA GPUs."""
    return len(visible_gpus())


def assign_gpus(workers: int) -> list[str]:
    """The value of CUDA_VISIBLE_DEVICES for each worker, with the same number of GPUs each.

    If there are too few, no worker gets any, because workers must train on devices of one kind.
    """
    devices = visible_gpus()
    each = len(devices) // workers
    return [",".join(devices[i * each : (i + 1) * each]) for i in range(workers)]


def needed_memory(processes: int, *, forked: bool) -> int:
    """The memory, in bytes, of this number of workers."""
    return processes * PRIVATE_BYTES + SHARED_BYTES * (1 if forked else processes)


def max_processes(*, forked: bool) -> int | None:
    """The number of workers that fit into the free memory, or None if it is unknown."""
    free = free_memory()
    if free is None:
        return None
    if forked:
        return max(1, (free - SHARED_BYTES) // IMPORT_ONLY_BYTES)
    return max(1, free // (SHARED_BYTES + IMPORT_ONLY_BYTES))


def free_memory() -> int | None:
    """The memory, in bytes, that is free for new processes, or None if it is unknown.

    It is the minimum of the machine's available memory and the rest of its containers' limits.
    Files in the page cache count as free, because the kernel can drop them. If a system reports
    only its total memory, as macOS does, all of it counts as free.
    """
    free: int | None
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        free = _memory()
    return None if free is None else max(0, min([free, *_remaining_bytes()]))


def oom_kill_count() -> int:
    """The number of processes that the kernel has killed because memory ran out.

    It counts processes of the whole machine since its start, also in containers (`oom_kill` of
    /proc/vmstat), and is 0 if the system does not report it.
    """
    with contextlib.suppress(OSError, ValueError):
        counts = dict(line.split() for line in VMSTAT.read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    return 0


def _affinity() -> list[int]:
    """The cores that this process may run on, or empty if they are unknown."""
    return sorted(os.sched_getaffinity(0)) if capabilities.has_affinity() else []


def _memory() -> int | None:
    """The memory of the machine in bytes, or None if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _groups(kind: str) -> Iterator[Path]:
    """The visible folders of this process's control groups and their parents.

    Args:
      kind: the kind of limits, "cpu" or "memory". Version 1 has a separate tree for each.
    """
    try:
        lines = [line.split(":", 2) for line in OWN_CGROUP.read_text().splitlines()]
    except OSError:
        lines = []
    own = {name: path for _number, names, path in lines for name in names.split(",")}
    # The group's path is the machine's. A container that sees its own group as root has only "/".
    for root, path in ((CGROUP, own.get("", "/")), (CGROUP / kind, own.get(kind, "/"))):
        parts = [part for part in Path(path).parts[1:] if part != ".."]
        for depth in range(len(parts), -1, -1):
            yield root.joinpath(*parts[:depth])


def _cgroup_limits() -> Iterator[float]:
    """The CPU limits of control groups, in cores."""
    for group, names in itertools.product(_groups("cpu"), CPU_FILES):
        try:
            quota, period = " ".join((group / name).read_text() for name in names).split()
            share = int(quota) / int(period)  # the word "max", or -1, if there is no limit
        except (OSError, ValueError, ZeroDivisionError):
            continue
        if share > 0:
            yield share


def _remaining_bytes() -> Iterator[int]:
    """The free memory, in bytes, of control groups with a limit."""
    for group, (limit, used, cache) in itertools.product(_groups("memory"), MEMORY_FILES):
        try:
            left = int((group / limit).read_text()) - int((group / used).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            yield left + int(stat[cache])
        except (OSError, KeyError, ValueError):  # the word "max" if there is no limit
            continue
