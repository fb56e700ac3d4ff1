"""Processes that have lost their parent: who takes them in, and who ends them.

On Linux a process whose parent ends is given to its nearest ancestor that asked for it (prctl(2),
PR_SET_CHILD_SUBREAPER), in whatever session it is, and else to the first process of the system. So
what a worker leaves behind, children of its children too, can be found and ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
SECONDS = 1.0  # for those that the kernel cannot end at once
LOOK_SECONDS = 0.005


def adopt() -> None:
    """Has the orphans among this process's descendants become its children; nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(but: Container[int] = ()) -> None:
    """Kills this process's children, and theirs, which thereby become its own, until none is left.

    Args:
      but: the numbers of those that stay.
    """
    deadline = time.monotonic() + SECONDS
    while (found := [pid for pid in _children() if pid not in but]) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(LOOK_SECONDS)


def descendants(pid: int) -> list[int]:
    """The numbers of a process's children, and of theirs."""
    children = _children(pid)
    return children + [number for child in children for number in descendants(child)]


def _children(pid: int | str = "self") -> list[int]:
    """Of all threads of a process; none where the kernel does not tell (proc(5))."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += [int(number) for number in thread.read_text().split()]
    return found
