"""The memory of processes, as the system counts it."""

from __future__ import annotations

import ctypes
from pathlib import Path

USED, PEAK = "VmRSS", "VmHWM"  # see proc(5)


def read(pid: int, field: str = USED) -> int | None:
    """The bytes that a process uses, or its peak. None if it has ended, or without /proc."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
    except (OSError, StopIteration):
        return None


def return_free() -> None:
    """Gives free memory of this process back to the system, so that only arrays are counted."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's, see malloc_trim(3)
    if trim is not None:
        trim(0)
