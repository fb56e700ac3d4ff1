"""Adopts and kills processes whose parent has ended.

On Linux the nearest ancestor that is a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) adopts a
process whose parent ends, in any session. Without a subreaper, the first process of the system
does. So all descendants that a worker leaves behind can be found and ended. On other systems only
processes with a living parent are found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from helpers.system import capabilities

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
PS = ("ps", "-A", "-o", "pid=", "-o", "ppid=")
KILL_TIMEOUT = 1.0  # for processes that the kernel cannot end at once
POLL_INTERVAL = 0.005


def become_subreaper() -> None:
    """Makes this process adopt its orphaned descendants, if that is supported."""
    if capabilities.has_subreaper():
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants(exclude: Container[int] = ()) -> None:
    """Kills all descendants of this process.

    Args:
      exclude: the pids of the processes to keep, with their descendants.
    """
    deadline = time.monotonic() + KILL_TIMEOUT
    while (found := descendants(os.getpid(), exclude)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(POLL_INTERVAL)


def descendants(pid: int, exclude: Container[int] = ()) -> list[int]:
    """The pids of all descendants, except `exclude` and their subtrees."""
    children_of = _children_from_procfs if capabilities.has_procfs() else _children_from_ps()

    def below(parent: int) -> list[int]:
        children = [child for child in children_of(parent) if child not in exclude]
        return children + [number for child in children for number in below(child)]

    return below(pid)


def _children_from_procfs(pid: int) -> list[int]:
    """The children of all threads of a process, by proc(5), or none if that is unsupported."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += [int(number) for number in thread.read_text().split()]
    return found


def _children_from_ps() -> Callable[[int], list[int]]:
    """Returns a function that finds the children of a process, by ps(1)."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    with (
        suppress(OSError),
        subprocess.Popen(PS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as ps,
    ):
        assert ps.stdout
        for line in ps.stdout:
            child, parent = map(int, line.split())
            if child != ps.pid:
                children[parent].append(child)
    return lambda pid: children[pid]
