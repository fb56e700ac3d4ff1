"""Control groups that limit the memory and the processes of a sandbox, all of them together."""

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
)  # the first with the PID namespace and the process that made it
SECONDS = 10.0  # in which the kernel lets go of a process that was killed


def make(memory: int | None, processes: int | None) -> list[Path]:
    """Control groups in others with these limits, of version 1 or 2, whichever the machine has.

    Who runs in the inner ones can make them, but nothing above them, the root of their own
    namespace (see cgroup_namespaces(7)), so the limits stand above.
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
    """This process's, and those of processes that were killed before they could.

    Only those of this PID namespace: containers may share control groups, and a process of
    another container has no number here by which to find out whether it runs.
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
        with contextlib.suppress(OSError):  # EBUSY while the kernel holds a process it has killed
            (group / INNER).rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.02)


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _empty(group: Path) -> None:
    """Kills what is left in a group: without namespaces, not all ends with the first process."""
    with contextlib.suppress(OSError):
        pids = map(int, (group / "cgroup.procs").read_text().split())
        for pid in filter(None, pids):  # 0 is one of another namespace, to kill the own group
            os.kill(pid, signal.SIGKILL)
