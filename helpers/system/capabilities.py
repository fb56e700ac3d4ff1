"""Features of the operating system, with one detection function for each.

The course is developed on Linux. On other systems, and in restricted containers, some features are
missing, and docs/SYSTEMS.md describes the effect of each. A function tests the feature itself if
that is possible, and otherwise the name of the system.
"""

from __future__ import annotations

import ctypes
import os
import sys


def fork_is_safe() -> bool:
    """Whether a process that has imported TensorFlow may be forked.

    On macOS it may not, because the system's libraries, which TensorFlow and NumPy call, fail or
    crash in a fork (https://docs.python.org/3/library/multiprocessing.html, "spawn").
    """
    return sys.platform == "linux"


def has_pidfd() -> bool:
    """Whether a descriptor can signal the end of a process: pidfd_open(2), Linux 5.3."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def has_fcntl_setsig() -> bool:
    """Whether the kernel sends a signal of our choice when a pipe closes: F_SETSIG of fcntl(2)."""
    import fcntl  # only needed here

    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, fcntl.F_SETSIG, 0)
    except (AttributeError, OSError):
        return False
    finally:
        os.close(reader)
        os.close(writer)
    return True


def has_subreaper() -> bool:
    """Whether a process can adopt its orphaned descendants: prctl(2)."""
    return hasattr(ctypes.CDLL(None), "prctl")


def has_namespaces() -> bool:
    """Whether there are namespaces. `netns.netns_supported` tests whether they are permitted."""
    return hasattr(ctypes.CDLL(None), "setns")


def has_affinity() -> bool:
    """Whether a process can be bound to cores."""
    return hasattr(os, "sched_getaffinity") and hasattr(os, "sched_setaffinity")


def has_procfs() -> bool:
    """Whether the kernel provides process information in /proc: proc(5)."""
    return os.path.isdir("/proc/self")


def has_prlimit() -> bool:
    """Whether the limits of another process can be set: prlimit(2)."""
    import resource

    return hasattr(resource, "prlimit")
