"""A network of its own for a local cluster: loopback, and nobody else.

TensorFlow's server listens on every interface, whatever address it is given, asks for no
password, and executes any graph it is sent. Inside a network namespace (see network_namespaces(7))
there is one interface, loopback, and only processes of that namespace can reach it.

Run as a program, this file is the short-lived child that makes a namespace, or tries one; a
process that has threads, as a notebook's has, could not enter a user namespace itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000  # <linux/sched.h>; os.CLONE_NEWNET came with Python 3.12
CLONE_NEWUSER = 0x10000000
SIOCSIFFLAGS = 0x8914  # <linux/sockios.h>
IFF_UP = 0x1  # <linux/if.h>

NAMESPACES = "LESSON_NAMESPACES"  # names the descriptors that a worker enters, as "4,5"
SECONDS = 5.0


class Network:
    """A network namespace with loopback up, kept alive by open descriptors.

    Attributes:
      descriptors: what a process enters with `enter`, in this order: a user namespace, where
        one was needed to be allowed the other, and the network namespace.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self.descriptors = descriptors

    @classmethod
    def create(cls) -> Network | None:
        """A new namespace, or None where this machine does not permit one."""
        return cls(_create()) if is_permitted() else None

    def close(self) -> None:
        """Lets go of the namespace; it ends with its last process."""
        while self.descriptors:
            os.close(self.descriptors.pop())


@functools.cache
def is_permitted() -> bool:
    """Whether processes here may make a namespace and enter it: tried once, in 0.1 s.

    Many containers, and Colab, forbid one or the other.
    """
    if sys.platform != "linux":
        return False
    try:
        network = Network(_create())
    except (OSError, subprocess.SubprocessError):
        return False
    try:
        return _child(network.descriptors, "try").wait(SECONDS) == 0
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        network.close()


def enter(descriptors: list[int]) -> None:
    """Moves this process into the namespaces. It must have one thread.

    Raises:
      OSError: the kernel refused.
    """
    for descriptor in descriptors:
        _check(_libc().setns(descriptor, 0))
        os.close(descriptor)


def enter_from_env() -> bool:
    """Enters the namespaces this process was started for; whether there are any."""
    names = os.environ.pop(NAMESPACES, None)
    if names:
        enter([int(name) for name in names.split(",")])
    return bool(names)


def _create() -> list[int]:
    """Has a child make the namespaces, and opens them before it ends."""
    with _child([], "make") as child:
        assert child.stdin and child.stdout
        names = child.stdout.readline().split()
        if not names:
            raise OSError("no network namespace can be made here")
        try:
            return [os.open(f"/proc/{child.pid}/ns/{name}", os.O_RDONLY) for name in names]
        finally:
            child.stdin.close()


def _child(descriptors: list[int], action: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, action, *map(str, descriptors)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _make() -> None:
    """In the child: new namespaces, told on standard output, held until standard input ends."""
    user, group = os.getuid(), os.getgid()
    try:
        _check(_libc().unshare(CLONE_NEWNET))
        names = "net"
    except OSError:  # not privileged: a user namespace, in which we are
        _check(_libc().unshare(CLONE_NEWUSER | CLONE_NEWNET))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        names = "user net"
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    print(names, flush=True)
    sys.stdin.read()


def _try(descriptors: list[int]) -> None:
    """In the child: enter, listen, and connect to it."""
    enter(descriptors)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), SECONDS).close()


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(code: int) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    _make() if action == "make" else _try([int(name) for name in rest])
