"""Runs a program that may write only into some folders, has no network, and a deadline.

    python -I -S sandbox.py --seconds 240 --writable DIR --mask DIR -- program argument …

The program gets namespaces of its own (see namespaces(7)): of the network, with nothing but
loopback; of processes, so that all it starts end with it; and of mounts, where everything is
read-only but the writable folders, and the hidden ones are empty. It keeps its user and loses its
capabilities, so it cannot undo this. Not limited is the time of the processor before the deadline.
With --no-namespaces there are no namespaces, for machines that permit none.

Memory and the number of processes, threads included, are limited for all together by control
groups, which root can make. For somebody else they are limits of setrlimit(2): of memory for each
process, of the number within the user namespace.

It imports nothing of this project, and no package: it starts in 0.05 s.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import time
from pathlib import Path

# <linux/sched.h>
NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
NAMESPACES = NEW_IPC | NEW_PROCESSES | NEW_NETWORK
# <linux/mount.h>
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, READ_ONLY = 442, -100, 0x8000, 1
# <linux/prctl.h>
PARENT_DEATH_SIGNAL, DROP_CAPABILITY, NO_NEW_PRIVILEGES = 1, 24, 38
SETFCAP = 31  # <linux/capability.h>: root may not make a user namespace without it
CAPSET_HEAD = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
READ_ONLY_PROC_PATHS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
TMPFS_OPTIONS = b"size=1g"  # of what is mounted in place of other folders
FORBIDDEN, TOO_LONG = 125, 124  # exit codes
GROUPS = Path("/sys/fs/cgroup")
GROUP, INNER = "sandbox-{}", "in"  # the first with the process that made it

libc = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code of the program."""
    args = _parse(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a kernel's interrupt is for the program
    try:
        groups = _make_groups(args.memory, args.processes) if os.geteuid() == 0 else []
        if not args.no_namespaces:
            _new_namespaces()
        first = os.fork()
        if first == 0:
            _check(libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
            _setns(groups, args)
            _start(args.program) if args.no_namespaces else _run_as_init(args)
    except OSError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return FORBIDDEN
    code = _wait(first, args.seconds)
    _remove_groups()
    return code


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--writable", type=os.path.realpath, action="append", default=[])
    parser.add_argument("--mask", type=os.path.realpath, action="append", default=[])
    parser.add_argument("--memory", type=int, help="bytes")
    parser.add_argument("--processes", type=int, help="threads count too")
    parser.add_argument("--no-namespaces", action="store_true", help="no namespaces")
    parser.add_argument("program", nargs="+")
    return parser.parse_args(argv)


def _make_groups(memory: int | None, processes: int | None) -> list[Path]:
    """Control groups in others with these limits, of version 1 or 2, whichever the machine has.

    Who runs in the inner ones can make them, but nothing above them, the root of a namespace of
    their own (see cgroup_namespaces(7)), so the limits stand above.
    """
    _remove_groups()
    group = GROUP.format(os.getpid())
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


def _remove_groups() -> None:
    """This process's, and those of processes that were killed before they could."""
    for group in [*GROUPS.glob(GROUP.format("*")), *GROUPS.glob(f"*/{GROUP.format('*')}")]:
        maker = group.name.rpartition("-")[2]
        if maker == str(os.getpid()) or not os.path.exists(f"/proc/{maker}"):
            deadline = time.monotonic() + 2.0
            while group.exists() and time.monotonic() < deadline:
                _kill_cgroup(group / INNER)
                with contextlib.suppress(OSError):
                    (group / INNER).rmdir()
                with contextlib.suppress(OSError):
                    group.rmdir()
                time.sleep(0.02)


def _kill_cgroup(group: Path) -> None:
    """Kills what is left in a group: without namespaces, not all ends with the first process."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _setns(groups: list[Path], args: argparse.Namespace) -> None:
    for group in groups:
        (group / "cgroup.procs").write_text("0")
    limits = {resource.RLIMIT_DATA: args.memory}
    if not args.no_namespaces:  # else all processes of this user would count
        limits[resource.RLIMIT_NPROC] = args.processes
    for kind, limit in limits.items():
        if limit is not None and not groups:
            resource.setrlimit(kind, (limit, limit))


def _new_namespaces() -> None:
    """Leaves the namespaces of the parent; without privileges, by way of a user namespace."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NAMESPACES) == 0:
        return
    _check(libc.unshare(NAMESPACES | NEW_USER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _wait(first: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(first, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) & 255
        time.sleep(0.05)
    os.kill(first, signal.SIGKILL)  # the first of its namespace: all others end with it
    os.waitpid(first, 0)
    return TOO_LONG


def _run_as_init(args: argparse.Namespace) -> None:
    """The first process of the new namespace: sets it up, starts the program, and buries."""
    code = FORBIDDEN
    try:
        _check(libc.unshare(NEW_MOUNTS))  # here: its parent has to remove groups afterwards
        _limit_files(args.writable, args.mask)
        _raise_loopback()
        _drop_capabilities()
        program = os.fork()
        if program == 0:
            os.environ.pop("JPY_PARENT_PID", None)  # a kernel would look for what it cannot see
            _start(args.program)
        pid = 0
        while pid != program:
            pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status) & 255
    except OSError as error:
        print(f"sandbox: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _start(program: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.execvp(program[0], program)


def _limit_files(writable: list[str], hidden: list[str]) -> None:
    folder = os.getcwd()
    kept = [(path, os.open(path, os.O_PATH)) for path in writable]
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    for path in [*hidden, "/run", "/dev/shm"]:
        if os.path.isdir(path) and not os.path.islink(path):
            _mount("tmpfs", path, "tmpfs", NOSUID | NODEV, TMPFS_OPTIONS)
    for path, descriptor in kept:
        os.makedirs(path, exist_ok=True)  # it may stand in a hidden folder
        _mount(f"/proc/self/fd/{descriptor}", path, None, BIND)
        os.close(descriptor)
    _set_read_only("/", True, AT_RECURSIVE)
    for path in [*writable, "/dev/shm"]:
        _set_read_only(path, False)
    _mount("proc", "/proc", "proc", NOSUID | NODEV)
    for path in READ_ONLY_PROC_PATHS:
        if os.path.exists(path):
            _mount(path, path, None, BIND)
            _set_read_only(path, True)
    os.chdir(folder)  # as it is mounted now


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None
) -> None:
    names = [None if name is None else name.encode() for name in (source, target, kind)]
    _check(libc.mount(*names, ctypes.c_ulong(flags), options), target)


def _set_read_only(path: str, on: bool, flags: int = 0) -> None:
    """mount_setattr(2), which came with Linux 5.12."""
    attributes = struct.pack("=QQQQ", READ_ONLY if on else 0, 0 if on else READ_ONLY, 0, 0)
    code = libc.syscall(
        MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, ctypes.c_size_t(len(attributes))
    )
    _check(code, path)


def _raise_loopback() -> None:
    set_flags, up = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))


def _drop_capabilities() -> None:
    """All but one that is of no use here, and that workers' own network namespaces need."""
    number = 0
    while number == SETFCAP or libc.prctl(DROP_CAPABILITY, number, 0, 0, 0) == 0:
        number += 1
    kept = 1 << SETFCAP
    _check(libc.capset(CAPSET_HEAD, struct.pack("IIIIII", kept, kept, kept, 0, 0, 0)))
    _check(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def _check(code: int, what: str = "") -> None:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    sys.exit(main())
