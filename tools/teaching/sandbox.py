"""Runs a program with access to selected files only, without a network, and with a deadline.

    python -I -S sandbox.py --seconds 240 --readable DIR --writable DIR -- program argument …

The program has its own namespaces (see namespaces(7)). The network namespace has only loopback. The
PID namespace makes all its processes end with it. The mount namespace has a root file system with
allowed files only (root_filesystem.py). If root starts it, it runs as an unprivileged user,
otherwise as the same user. It has no capabilities and its own session keyring, so it cannot undo
this. CPU time before the deadline is not limited. The option --no-namespaces disables namespaces,
for machines that do not permit them.

Control groups, which root can create, limit the total memory and the total number of processes,
including threads. For other users, setrlimit(2) limits the memory of each process, and the number
of processes in the user namespace.

It imports only the two modules next to it, so it starts in 0.06 s.
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
import uuid
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
from tools.teaching import control_groups, root_filesystem
from tools.teaching.root_filesystem import check, libc

# <linux/sched.h>
NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
NAMESPACES = NEW_IPC | NEW_PROCESSES | NEW_NETWORK
# <linux/prctl.h>
PARENT_DEATH_SIGNAL, DUMPABLE, SECCOMP, DROP_CAPABILITY, NO_NEW_PRIVILEGES = 1, 4, 22, 24, 38
SETFCAP = 31  # <linux/capability.h>: root cannot create a user namespace without it
CAPSET_HEAD = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
NOBODY = 65534  # the user and group that root becomes
# <linux/audit.h>, <asm/unistd.h>: add_key, request_key, keyctl
KEY_CALLS = {"x86_64": (0xC000003E, 248, 249, 250), "aarch64": (0xC00000B7, 217, 218, 219)}
JOIN_SESSION_KEYRING = 1
FORBIDDEN, TOO_LONG = 125, 124  # exit codes


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code of the program."""
    args = _parse(argv)
    parent, is_root = os.getppid(), os.geteuid() == 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the kernel is for the program
    os.umask(0o022)
    try:
        groups = control_groups.make(args.memory, args.processes) if is_root else []
        becomes_nobody = not args.no_namespaces and _new_namespaces() and is_root
        if becomes_nobody:
            _give_to_nobody(args.writable)
        first = os.fork()
        if first == 0:
            check(libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
            _limit(groups, args)
            _start(args.program) if args.no_namespaces else _run_as_init(args, becomes_nobody)
    except OSError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return FORBIDDEN
    code = _wait(first, parent, args.seconds)
    control_groups.remove()
    if os.getppid() != parent and args.remove:
        remove_folder(args.remove)
    return code


def remove_folder(folder: str) -> None:
    """Deletes a folder of any depth and with any modes, without following links.

    shutil.rmtree has a depth limit, and followed links before Python 3.11.8. If the first process
    of a namespace has ended, its parent cannot start another one, such as rm. So this function
    moves the contents of subfolders up into the folder until all of them are empty.
    """
    prefix, moved = uuid.uuid4().hex, 0
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        while entries := list(os.scandir(folder)):
            for entry in entries:
                for inner in _entries(entry):
                    _entries(inner)
                    os.rename(inner.path, os.path.join(folder, f"{prefix}-{moved}"))
                    moved += 1
                os.rmdir(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        os.rmdir(folder)


def _entries(entry: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """The entries of a folder with any mode, or nothing for a file or a link."""
    if not entry.is_dir(follow_symlinks=False):
        return []
    os.chmod(entry.path, 0o700)
    return list(os.scandir(entry.path))


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--readable", action="append", default=[])
    parser.add_argument("--writable", type=os.path.realpath, action="append", default=[])
    parser.add_argument("--mask", action="append", default=[])
    parser.add_argument("--remove", help="a folder to delete if the parent process has ended")
    parser.add_argument("--memory", type=int, help="bytes")
    parser.add_argument("--processes", type=int, help="threads count too")
    parser.add_argument("--no-namespaces", action="store_true", help="no namespaces")
    parser.add_argument("program", nargs="+")
    return parser.parse_args(argv)


def _limit(groups: list[Path], args: argparse.Namespace) -> None:
    control_groups.enter(groups)
    limits = {resource.RLIMIT_DATA: args.memory}
    if not args.no_namespaces:  # otherwise all processes of this user would count
        limits[resource.RLIMIT_NPROC] = args.processes
    for kind, limit in limits.items():
        if limit is not None and not groups:
            resource.setrlimit(kind, (limit, limit))


def _new_namespaces() -> bool:
    """Leaves the parent's namespaces, and returns whether no user namespace was needed."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NAMESPACES) == 0:
        return True
    check(libc.unshare(NAMESPACES | NEW_USER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return False


def _give_to_nobody(folders: list[str]) -> None:
    for folder in folders:
        for path in [folder, *(entry.path for entry in os.scandir(folder))]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _wait(first: int, parent: int, seconds: float) -> int:
    """Waits until the program ends, its time is over, or the parent process has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and os.getppid() == parent:
        pid, status = os.waitpid(first, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) & 255
        time.sleep(0.05)
    os.kill(first, signal.SIGKILL)  # all processes of its namespace end with it
    os.waitpid(first, 0)
    return TOO_LONG


def _run_as_init(args: argparse.Namespace, becomes_nobody: bool) -> None:
    """Acts as init of the new namespace: sets it up, starts the program, and reaps processes."""
    code = FORBIDDEN
    try:
        check(libc.unshare(NEW_MOUNTS))  # here, because the parent must remove groups later
        user = NOBODY if becomes_nobody else os.getuid()
        root_filesystem.enter(args.readable, args.writable, args.mask, user)
        _raise_loopback()
        _drop_privileges(becomes_nobody)
        program = os.fork()
        if program == 0:
            os.environ.pop("JPY_PARENT_PID", None)  # a kernel would poll a PID that it cannot see
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


def _raise_loopback() -> None:
    set_flags, up = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))


def _drop_privileges(becomes_nobody: bool) -> None:
    """Drops all capabilities and root's user.

    So the program cannot open files that this process has open.
    """
    kept = 0 if becomes_nobody or os.getuid() else 1 << SETFCAP  # for workers' namespaces
    number = 0
    while kept == 1 << number or libc.prctl(DROP_CAPABILITY, number, 0, 0, 0) == 0:
        number += 1
    if becomes_nobody:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    check(libc.capset(CAPSET_HEAD, struct.pack("IIIIII", kept, kept, kept, 0, 0, 0)))
    check(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    check(libc.prctl(DUMPABLE, 0, 0, 0, 0))  # otherwise /proc/1/exe is the Python outside
    check(libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))  # a new user clears it
    _leave_keys()


def _leave_keys() -> None:
    """Joins a new session keyring, and forbids system calls that could access other keys."""
    if os.uname().machine not in KEY_CALLS:
        return
    architecture, *calls = KEY_CALLS[os.uname().machine]
    libc.syscall(calls[-1], JOIN_SESSION_KEYRING, None)  # it fails if the kernel has no keys
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06  # <linux/bpf_common.h>
    allowed, refused = 0x7FFF0000, 0x00050001  # <linux/seccomp.h>: ERRNO with EPERM
    others = len(calls)
    filters = [
        (load, 0, 0, 4),  # the architecture
        (equal, 0, others + 3, architecture),
        (load, 0, 0, 0),  # the number of the call
        (at_least, others + 1, 0, 0x40000000),  # a call of x32
        *((equal, others - place, 0, call) for place, call in enumerate(calls)),
        (answer, 0, 0, allowed),
        (answer, 0, 0, refused),
    ]
    code = b"".join(struct.pack("=HBBI", *one) for one in filters)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(filters), ctypes.addressof(buffer))
    libc.prctl(SECCOMP, 2, program, 0, 0)  # without seccomp, it still has its own keyring


if __name__ == "__main__":
    sys.exit(main())
