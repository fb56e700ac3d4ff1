"""What this process may use of the machine: cores, memory, GPUs.

A container's limits count as the machine's own: those of control groups on the way from this
process's group up to the root. Version 2 has one tree of groups, version 1, which older systems and
some sandboxes still have, one for each kind of limit
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

# A process that trains the lessons' model on MNIST: of that, what forks of one process share, which
# is TensorFlow itself, and what each has for itself.
SHARED_BYTES = 400_000_000
PRIVATE_BYTES = 300_000_000
IMPORT_ONLY_BYTES = (
    50_000_000  # what a process has for itself that has imported TensorFlow, and no more
)

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")
VMSTAT = Path("/proc/vmstat")
NVIDIA = "/dev/nvidia[0-9]*"
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
# Of version 2 and of version 1: quota and period; limit, use, and how much of that are files.
CPU_FILES = ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def cores() -> int:
    """How many CPU cores this process may use, at least 1.

    The cores it may run on or, where its container has a smaller share of their time, that share,
    rounded up.
    """
    available = len(_affinity()) or os.cpu_count() or 1
    return max(1, min([available, *map(math.ceil, _cgroup_limits())]))


def share_cores(workers: int) -> list[list[int]]:
    """Divides the CPU cores of this process among `workers` workers.

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


def pin_to_cores(numbers: list[int]) -> None:
    """Binds this process to these cores, where the operating system can; to none in particular, if
    there are no numbers.
    """
    if numbers and capabilities.has_affinity():
        os.sched_setaffinity(0, numbers)


def visible_gpus() -> list[str]:
    """The NVIDIA devices that the driver shows and CUDA_VISIBLE_DEVICES leaves, without TensorFlow.

    Returns: their numbers, or what the variable calls them.
    """
    devices = [str(number) for number in range(len(glob.glob(NVIDIA)))]
    named = os.environ.get(VISIBLE_GPUS)
    if named is None or not devices:
        return devices
    # As CUDA does, which reads no further than a name that is none.
    names = (name.strip() for name in named.split(","))
    return [*itertools.takewhile(lambda name: name not in ("", "-1"), names)]


def nvidia_gpus() -> int:
    """The number of NVIDIA GPUs."""
    return len(visible_gpus())


def assign_gpus(workers: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES has to say in each worker: a part of the GPUs, each as many.

    If there are too few, no worker gets any: workers must train on devices of one kind.
    """
    devices = visible_gpus()
    each = len(devices) // workers
    return [",".join(devices[i * each : (i + 1) * each]) for i in range(workers)]


def needed_memory(processes: int, *, forked: bool) -> int:
    """The memory, in bytes, of this number of workers."""
    return processes * PRIVATE_BYTES + SHARED_BYTES * (1 if forked else processes)


def max_processes(*, forked: bool) -> int | None:
    """How many workers the free memory allows; None if it is unknown."""
    free = free_memory()
    if free is None:
        return None
    if forked:
        return max(1, (free - SHARED_BYTES) // IMPORT_ONLY_BYTES)
    return max(1, free // (SHARED_BYTES + IMPORT_ONLY_BYTES))


def free_memory() -> int | None:
    """The memory, in bytes, that is free for new processes; None if it is unknown.

    The smallest of what the machine has available and what its containers have left; files in the
    page cache count as free, as the kernel gives them up. If a system reports only its total
    memory, as macOS does, all of that counts as free.
    """
    free: int | None
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        free = _memory()
    return None if free is None else max(0, min([free, *_remaining_bytes()]))


def oom_kill_count() -> int:
    """How many processes the kernel has killed since it started because memory ran out.

    Those of the whole machine, in containers too (`oom_kill` of /proc/vmstat); 0 where the system
    does not tell.
    """
    with contextlib.suppress(OSError, ValueError):
        counts = dict(line.split() for line in VMSTAT.read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    return 0


def _affinity() -> list[int]:
    """The cores that this process may run on; empty if they are unknown."""
    return sorted(os.sched_getaffinity(0)) if capabilities.has_affinity() else []


def _memory() -> int | None:
    """The memory of the machine in bytes; None if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _groups(kind: str) -> Iterator[Path]:
    """The folders of this process's control groups, and of those they lie in, as far as it sees.

    Args:
      kind: of limits, "cpu" or "memory": version 1 has a separate tree for each.
    """
    try:
        lines = [line.split(":", 2) for line in OWN_CGROUP.read_text().splitlines()]
    except OSError:
        lines = []
    own = {name: path for _number, names, path in lines for name in names.split(",")}
    # The group's path is the machine's; a container that sees its own group as root has only "/".
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
        except (OSError, KeyError, ValueError):  # the word "max" if there is none
            continue
