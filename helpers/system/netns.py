"""An isolated network for a local cluster, a namespace with only loopback.

TensorFlow's server listens on every interface, regardless of its address, requires no password, and
executes any graph that it receives. A network namespace (see network_namespaces(7)) has one
interface, loopback, which only processes of that namespace can reach. Its speed can be limited, to
measure the effect of a slow network on training.

Run as a program, this file is the short-lived child process that creates or tests a namespace. A
process with threads, such as a notebook's, could not enter a user namespace itself.
`helpers.system.virtual_hosts` has networks of several namespaces, and uses this module.
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
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNET = 0x40000000  # <linux/sched.h>, os.CLONE_NEWNET since Python 3.12
CLONE_NEWUSER = 0x10000000
SIOCSIFFLAGS = 0x8914  # <linux/sockios.h>
IFF_UP = 0x1  # <linux/if.h>

# <linux/netlink.h>, <linux/rtnetlink.h>, <linux/pkt_sched.h>
REQUEST = 0x1 | 0x4 | 0x400  # REQUEST, ACK, CREATE
REPLACE = 0x100
RTM_NEWQDISC = 36
TC_H_ROOT = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_BURST = 1, 6
ETHERNET = 1  # TC_LINKLAYER_ETHERNET, for which the kernel needs no table of rates
BURST = 70_000  # bytes, for a packet of loopback, which has up to 65,549
QUEUE = 1 << 24  # bytes that may wait, more than TCP has in flight, so that none is dropped
TICK = 64e-9  # seconds, the time unit of the kernel's packet scheduler
MIN_BANDWIDTH, MAX_BANDWIDTH = 1e4, 3e10  # bits per second that fit into the fields

OWN_NETWORK = "ns/net"  # in the folder of a process in /proc
NAMESPACES = "LESSON_NAMESPACES"  # names the descriptors that a worker enters, as "4,5"
HELPER_TIMEOUT = 5.0


class Network:
    """A network namespace with loopback up, kept alive by open descriptors.

    Attributes:
      descriptors: of the namespaces that a process enters with `setns_all`, in this order: a user
        namespace, if it was required for the permission, and the network namespace.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self.descriptors = descriptors

    @classmethod
    def create(cls, bandwidth: float | None = None) -> Network | None:
        """Creates a namespace, or returns None if this machine does not permit it.

        Args:
          bandwidth: bits per second that its loopback carries, for all connections and both
            directions together, or None for no limit.

        Raises:
          ConfigError: the bandwidth cannot be limited here.
        """
        if bandwidth is None:
            return cls(_create()) if netns_supported() else None
        check_bandwidth(bandwidth)
        try:
            return cls(_create(bandwidth))
        except (OSError, subprocess.SubprocessError) as error:  # a kernel without this queue
            _raise_if_exhausted(error)
            raise _no_limit(bandwidth) from None

    def close(self) -> None:
        """Closes the descriptors. The namespace ends with its last process."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def check_bandwidth(bandwidth: float | None, *, isolated: bool = True) -> None:
    """Raises ConfigError if the network of a cluster cannot have this bandwidth."""
    # Imported here because the child that runs this file has no package.
    from helpers.errors import ConfigError
    from helpers.i18n import _

    if bandwidth is None:
        return
    if not MIN_BANDWIDTH <= bandwidth <= MAX_BANDWIDTH:
        message = _("bandwidth={value!r} must be bits per second, from {slowest:g} to {fastest:g}.")
        raise ConfigError(
            message.format(value=bandwidth, slowest=MIN_BANDWIDTH, fastest=MAX_BANDWIDTH)
        )
    if not isolated:
        message = _(
            'bandwidth={value:g} limits the network of an isolated cluster, but network="host" '
            "uses the machine's network. Pass only one of them."
        )
        raise ConfigError(message.format(value=bandwidth))
    if not netns_supported():
        raise _no_limit(bandwidth)


def _no_limit(bandwidth: float) -> Exception:
    from helpers.errors import ConfigError
    from helpers.i18n import _

    message = _(
        "bandwidth={value:g} is not supported here: this machine forbids network namespaces, "
        "or its kernel has no token bucket filter. Leave bandwidth out, or use another machine."
    )
    return ConfigError(message.format(value=bandwidth))


@functools.cache
def netns_supported() -> bool:
    """Whether this process may create and enter a namespace, which is tested once, in 0.1 s.

    Many containers, and Colab, forbid one or the other.
    """
    from helpers.system import capabilities

    if not capabilities.has_namespaces():
        return False
    try:
        network = Network(_create())
    except (OSError, subprocess.SubprocessError) as error:
        _raise_if_exhausted(error)
        return False
    try:
        return is_supported(start_child(network.descriptors, "try"))
    except (OSError, subprocess.SubprocessError) as error:
        _raise_if_exhausted(error)
        return False
    finally:
        network.close()


def _raise_if_exhausted(error: Exception) -> None:
    """Raises an error that is unrelated to namespaces, when no more files can be opened."""
    from helpers.system.descriptors import are_exhausted

    if isinstance(error, OSError) and are_exhausted(error):
        raise error


def is_supported(child: subprocess.Popen[str]) -> bool:
    """Whether a child process succeeds in time.

    Raises:
      subprocess.TimeoutExpired: it did not end soon, and was killed.
    """
    with child:
        try:
            return child.wait(HELPER_TIMEOUT) == 0
        finally:
            child.kill()


def setns_all(descriptors: list[int]) -> None:
    """Moves this process into the namespaces. It must have one thread.

    Raises:
      OSError: the kernel rejected it.
    """
    for descriptor in descriptors:
        setns(descriptor)
        os.close(descriptor)


def setns(namespace: int) -> None:
    """Moves this process into one namespace, as `setns_all`, and keeps its descriptor open."""
    check_errno(libc().setns(namespace, 0))


def enter_from_env() -> bool:
    """Enters the namespaces this process was started for, and returns whether there are any."""
    names = os.environ.pop(NAMESPACES, None)
    if names:
        setns_all([int(name) for name in names.split(",")])
    return bool(names)


def _create(bandwidth: float | None = None) -> list[int]:
    """Starts a child that creates the namespaces, and opens them before the child ends."""
    from helpers.system.descriptors import fill_standard

    fill_standard()  # or a namespace could get a number that a new process replaces
    limit = [] if bandwidth is None else [int(bandwidth)]
    return open_namespaces(start_child([], "make", *limit))


def open_namespaces(child: subprocess.Popen[str]) -> list[int]:
    """Opens the namespaces whose paths in /proc a child has printed.

    Raises:
      OSError: it could not create them.
    """
    with child:
        assert child.stdin and child.stdout
        names = child.stdout.readline().split()
        if not names:
            raise OSError("no network namespace can be made here")
        try:
            return [os.open(f"/proc/{child.pid}/{name}", os.O_RDONLY) for name in names]
        finally:
            child.stdin.close()


def start_child(
    descriptors: Sequence[int], action: str, *numbers: int, program: Sequence[str] = (__file__,)
) -> subprocess.Popen[str]:
    """Starts this file or another program as the child, with an action and its arguments."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", *program, action, *map(str, [*descriptors, *numbers])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _make(bandwidth: int | None = None) -> None:
    """In the child: creates namespaces with loopback up, and holds them open."""
    names = [*unshare(), OWN_NETWORK]
    set_link("lo", up=True)
    if bandwidth is not None:
        set_bandwidth("lo", bandwidth)
    publish_and_wait(names)


def unshare() -> list[str]:
    """Moves this process, a child, into a new network namespace.

    Returns: the name of the user namespace that had to be created for it, if any.
    """
    user, group = os.getuid(), os.getgid()
    try:
        check_errno(libc().unshare(CLONE_NEWNET))
    except OSError:  # not privileged, so in a new user namespace
        check_errno(libc().unshare(CLONE_NEWUSER | CLONE_NEWNET))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return ["ns/user"]
    return []


def publish_and_wait(names: Sequence[str]) -> None:
    """In the child: prints the namespace paths, then waits for EOF on standard input."""
    print(*names, flush=True)
    sys.stdin.read()


def set_link(interface: str, *, up: bool) -> None:
    """Sets a network interface of this namespace up or down."""
    flags = struct.pack("16sh14x", interface.encode(), IFF_UP * up)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, flags)


def set_bandwidth(interface: str, bandwidth: int) -> None:
    """Limits the outgoing bits per second of an interface by a token bucket filter, tc-tbf(8)."""
    rate = bandwidth // 8
    spec = struct.pack("=BBHhHI", 0, ETHERNET, 0, 0, 0, rate)  # struct tc_ratespec
    ticks = int(BURST / rate / TICK)
    parameters = spec + bytes(12) + struct.pack("=III", QUEUE, ticks, 0)  # struct tc_tbf_qopt
    options = netlink_attr(TCA_TBF_PARMS, parameters)
    options += netlink_attr(TCA_TBF_BURST, struct.pack("=I", BURST))
    head = struct.pack("=BxxxiIII", 0, socket.if_nametoindex(interface), 0, TC_H_ROOT, 0)
    body = head + netlink_attr(TCA_KIND, b"tbf\0") + netlink_attr(TCA_OPTIONS, options)
    netlink_request(RTM_NEWQDISC, body, REQUEST | REPLACE)


def netlink_request(kind: int, body: bytes, flags: int = REQUEST) -> None:
    """Sends a message to the kernel's network, rtnetlink(7), and waits for the answer.

    The programs `tc` and `ip` do nothing else, but may be missing, and an unprivileged user's
    rights in a namespace would not pass to a program.

    Raises:
      OSError: the kernel rejected it.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        (error,) = struct.unpack_from("=i", kernel.recv(4096), 16)  # struct nlmsgerr
    if error:
        raise OSError(-error, os.strerror(-error))


def netlink_attr(kind: int, value: bytes) -> bytes:
    """Encodes a netlink attribute: its length, its kind, its value, padded to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _try(descriptors: list[int]) -> None:
    """In the child: enters the namespace, listens there, and connects to itself."""
    setns_all(descriptors)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), HELPER_TIMEOUT).close()


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library, with `errno` for `check_errno`."""
    return ctypes.CDLL(None, use_errno=True)


def check_errno(code: int) -> None:
    """Raises OSError if this return code of a C library function means a failure."""
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    numbers = [int(number) for number in rest]
    _make(*numbers) if action == "make" else _try(numbers)
