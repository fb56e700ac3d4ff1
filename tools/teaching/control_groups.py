"""Control groups that limit the total memory and number of processes of a sandbox."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
GROUP, INNER = (
    "sandbox-{}-{}",
    "in",
)  # the outer name has the PID namespace and the creating process
SECONDS = 10.0  # until the kernel has removed a killed process


def make(memory: int | None, processes: int | None) -> list[Path]:
    """Creates control groups inside others with these limits, in the machine's version 1 or 2.

    Processes in the inner groups can manage these groups, but nothing above them, which are the
    root of their namespace (see cgroup_namespaces(7)). So the limits are set above.
    """
    remove()
    group = GROUP.format(_namespace(), os.getpid())
    if (GROUPS / "memory").is_dir():
        files = {
            GROUPS / "memory" / group / "memory.limit_in_bytes": memory,
            GROUPS / "pids" / group / "pids.max": processes,
        }
    else:
        files = {GROUPS / group / "memory.max": memory, GROUPS / group / "pids.max": processes}
    limits = {file: limit for file, limit in files.items() if limit is not None}
    for file, limit in limits.items():
        (file.parent / INNER).mkdir(parents=True, exist_ok=True)
        file.write_text(str(limit))
    return sorted({file.parent / INNER for file in limits})


def enter(groups: list[Path]) -> None:
    """Moves this process into the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text("0")


def remove() -> None:
    """Removes the groups of this process, and groups that killed processes left behind.

    Only groups of this PID namespace are removed. Containers may share control groups, and a
    process of another container has no PID here that shows whether it runs.
    """
    pattern = GROUP.format(_namespace(), "*")
    for group in [*GROUPS.glob(pattern), *GROUPS.glob(f"*/{pattern}")]:
        maker = group.name.rpartition("-")[2]
        if maker == str(os.getpid()) or not os.path.exists(f"/proc/{maker}"):
            _remove(group)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while group.exists() and time.monotonic() < deadline:
        _empty(group / INNER)
        with contextlib.suppress(OSError):  # EBUSY until the kernel has removed a killed process
            (group / INNER).rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.02)


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _empty(group: Path) -> None:
    """Kills remaining processes in a group, which without namespaces outlive the first process."""
    with contextlib.suppress(OSError):
        pids = map(int, (group / "cgroup.procs").read_text().split())
        for pid in filter(None, pids):  # 0: a process of another namespace
            os.kill(pid, signal.SIGKILL)
