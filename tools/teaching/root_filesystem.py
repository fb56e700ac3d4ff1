"""The root file system of a sandbox, which contains only allowed files.

A new, empty root contains the system's programs and libraries, the folders that the caller names,
and one or more writable folders. Nothing else of the machine exists in it, such as /tmp, /run, /dev
and /home. These contain Unix sockets, FIFOs, terminals and disks, to which even a read-only mount
would permit access (see mount_namespaces(7), pivot_root(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable

# <linux/mount.h>
NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, READ_ONLY = 442, -100, 0x8000, 1
NOTHING_SPECIAL = NOSUID | NODEV  # also attributes, which have the same numbers

BASE, OLD = "/tmp", "/old"  # any existing folder, and the machine's root during the setup
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf"),
    *("/etc/os-release", "/etc/timezone"),
)
MACHINE = ("/sys/devices/system", "/sys/fs/cgroup")  # cores and limits, which TensorFlow reads
DEVICES = ("full", "null", "random", "urandom", "zero")
KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/ptmx": "pts/ptmx",
    "/var/tmp": "/tmp",
}
SCRATCH = b"mode=1777,size=512m"  # options of /tmp and /dev/shm, which use memory

libc = ctypes.CDLL(None, use_errno=True)


def enter(
    readable: Iterable[str], writable: Iterable[str], hidden: Iterable[str], user: int
) -> None:
    """Builds the root, and moves this process, which has its own mount namespace, into it.

    Args:
      readable: files and folders in addition to the system's. Missing ones are ignored.
      writable: folders, under the same paths as outside.
      hidden: folders inside readable ones that appear empty.
      user: the user id with a name in /etc/passwd.

    Raises:
      OSError: the kernel forbids it.
    """
    folder = os.getcwd()
    sources = {path: os.path.realpath(path) for path in [*PROGRAMS, *SETTINGS, *MACHINE]}
    for path in readable:
        sources[os.path.abspath(path)] = sources[os.path.realpath(path)] = os.path.realpath(path)
    writable = [os.path.realpath(path) for path in writable]
    hidden = {path for name in hidden for path in (os.path.abspath(name), os.path.realpath(name))}
    _pivot()
    for path in ("/tmp", "/dev/shm"):
        _mount("tmpfs", path, "tmpfs", NOTHING_SPECIAL, SCRATCH)
    for path in sorted(sources):
        _bind(sources[path], path)
    hidden = sorted(path for path in hidden if os.path.isdir(path))
    for path in hidden:
        _mount("tmpfs", path, "tmpfs", NOTHING_SPECIAL, b"mode=555,size=64k")
    for path in writable:
        _bind(path, path, attributes=NOTHING_SPECIAL)
    for path in hidden:
        _set_attributes(path, READ_ONLY)
    _mount_kernel_files()
    _write_settings(user)
    check(libc.umount2(OLD.encode(), DETACH), OLD)
    os.rmdir(OLD)
    _set_attributes("/", READ_ONLY)
    with contextlib.suppress(OSError):  # a folder that is not in the new root
        os.chdir(folder)


def check(code: int, what: str = "") -> None:
    """Raises the OSError of a system call that failed."""
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _pivot() -> None:
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("tmpfs", BASE, "tmpfs", NOTHING_SPECIAL, b"mode=755,size=16m")
    os.mkdir(BASE + OLD)
    check(libc.pivot_root(BASE.encode(), (BASE + OLD).encode()), "pivot_root")
    os.chdir("/")


def _bind(source: str, target: str, attributes: int = READ_ONLY | NOTHING_SPECIAL) -> None:
    """Binds a file or folder of the machine, with the mounts inside it, if it exists."""
    source = OLD + source
    if os.path.isdir(source):
        with contextlib.suppress(OSError):  # it is in a folder that is already bound
            os.makedirs(target, exist_ok=True)
    elif os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with contextlib.suppress(OSError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        return
    _mount(source, target, None, BIND | RECURSIVE)
    _set_attributes(target, attributes, AT_RECURSIVE)


def _mount_kernel_files() -> None:
    """Mounts a /proc of the sandbox's own processes, and a /dev without disks and terminals."""
    _mount("proc", "/proc", "proc", NOTHING_SPECIAL | NOEXEC)
    for path in KERNEL_SETTINGS:
        if os.path.exists(path):
            _mount(path, path, None, BIND)
            _set_attributes(path, READ_ONLY)
    for name in DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}", attributes=READ_ONLY | NOSUID)
    with contextlib.suppress(OSError):  # only programs that open terminals need it
        options = b"newinstance,ptmxmode=0666,mode=600"
        _mount("devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, options)
    os.mkdir("/run")
    for path, target in LINKS.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


def _write_settings(user: int) -> None:
    files = {
        "/etc/passwd": f"student:x:{user}:{user}::/tmp:/bin/sh\n",
        "/etc/group": f"student:x:{user}:\n",
        "/etc/hosts": f"127.0.0.1 localhost {socket.gethostname()}\n::1 localhost\n",
    }
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None
) -> None:
    if not os.path.exists(target):
        os.makedirs(target)
    names = [None if name is None else os.fsencode(name) for name in (source, target, kind)]
    check(libc.mount(*names, ctypes.c_ulong(flags), options), target)


def _set_attributes(path: str, attributes: int, flags: int = 0) -> None:
    """Calls mount_setattr(2), which exists since Linux 5.12."""
    added = struct.pack("=QQQQ", attributes, 0, 0, 0)
    size = ctypes.c_size_t(len(added))
    check(libc.syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, added, size), path)
