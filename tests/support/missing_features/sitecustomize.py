"""Disables features of the operating system in a process: the features in WITHOUT.

Python imports this module first in every process that has this folder in PYTHONPATH, so in all
processes that a test starts, and in their children. `tests.support.degraded` sets both variables.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import functools
import io
import os
import resource
import signal
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

PROC = ("/proc", "/sys/fs/cgroup")
OPENERS = ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access")  # of the module os

# <linux/prctl.h>, <linux/seccomp.h>, <linux/bpf_common.h>, <linux/audit.h>
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NUMBERS = {"x86_64": (272, 308), "aarch64": (97, 268)}  # of unshare(2) and setns(2)


def pidfd() -> None:
    """There are no file descriptors for processes."""
    del os.pidfd_open, signal.pidfd_send_signal


def eventfd() -> None:
    """There are no counters with a file descriptor."""
    for name in [name for name in vars(os) if name.startswith(("eventfd", "EFD_"))]:
        delattr(os, name)


def namespaces() -> None:
    """The kernel forbids new namespaces, here and in all children, as in many containers."""
    unshare, setns = NUMBERS[os.uname().machine]
    steps = [
        (LOAD, 0, 0, 0),  # the number of the call
        (JUMP_IF_EQUAL, 2, 0, unshare),
        (JUMP_IF_EQUAL, 1, 0, setns),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


def affinity() -> None:
    """Processes cannot be bound to cores, and cannot read their affinity."""
    del os.sched_getaffinity, os.sched_setaffinity
    if hasattr(os, "process_cpu_count"):  # the function of Python 3.13 needs them
        os.process_cpu_count = os.cpu_count


def setsig() -> None:
    """A closed pipe cannot send a chosen signal."""
    del fcntl.F_SETSIG


def proc() -> None:
    """There are no process folders in /proc.

    psutil still sees each process, because it uses other methods on other systems. But there, only
    root may read the connections of all processes at once.
    """
    import psutil  # not needed by any other feature

    vars(psutil).update(net_connections=_denied)
    for name in OPENERS:
        setattr(os, name, _blind(getattr(os, name)))
    builtins.open = io.open = _blind(io.open)


def limits() -> None:
    """A process cannot set the limits of another."""
    del resource.prlimit


def _blind(function: Any) -> Any:
    """Wraps a function so that it does not see the paths in PROC."""
    blind = functools.partial(_unless_hidden, function)
    for known in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if function in known:
            known.add(blind)
    return blind


def _unless_hidden(function: Any, path: Any = ".", *arguments: Any, **options: Any) -> Any:
    hidden = isinstance(path, (str, os.PathLike)) and str(os.fspath(path)).startswith(PROC)
    caller = sys._getframe(1)
    if hidden and not _is_psutil(caller) and not _is_psutil(caller.f_back):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return function(path, *arguments, **options)


def _denied(*_arguments: Any) -> Any:
    import psutil

    raise psutil.AccessDenied


def _is_psutil(caller: types.FrameType | None) -> bool:
    return caller is not None and caller.f_globals.get("__name__", "").startswith("psutil")


TAKE_AWAY: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (pidfd, eventfd, namespaces, affinity, setsig, proc, limits)
}

for _name in filter(None, os.environ.get("WITHOUT", "").split(",")):
    TAKE_AWAY[_name]()
