"""A network of several hosts on this machine, for a local cluster whose cables can be pulled.

Each host is a network namespace with its own loopback and a cable, veth(4), to a bridge in one more
namespace, the switch. A process on a host has an address and can reach only the other hosts. A
cable is disconnected at the switch, so packets are dropped, and connections receive no error.

The short-lived child process that creates all this is described in `helpers.system.netns`.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.system import capabilities, netns
from helpers.system.descriptors import fill_standard
from helpers.system.netns import Network, netlink_attr

NETWORK = ipaddress.IPv4Network("10.0.0.0/16")  # not visible outside
PORT = 2222  # TensorFlow's usual port, because each host has all ports for itself
BRIDGE, VETH = "switch", "eth0"  # the bridge, and a cable's end at its host

# <linux/rtnetlink.h>, <linux/if_link.h>, <linux/if_addr.h>, <linux/veth.h>
RTM_NEWLINK, RTM_NEWADDR = 16, 20
IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_FD = 3, 10, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2

PACKAGES = str(Path(__file__).parents[2])
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from helpers.system.virtual_hosts import main; main(*sys.argv[2:])"
)


class VirtualHosts:
    """Hosts joined by a switch, kept alive by open descriptors.

    Attributes:
      networks: for each host, the network that a process enters to run there.
      addresses: the address at which it then listens, as ``"10.0.0.1:2222"``.
    """

    def __init__(self, switch: Network, networks: Sequence[Network]) -> None:
        self.networks = networks
        self.addresses = [f"{_address(index)}:{PORT}" for index in range(len(networks))]
        self._switch = switch

    @classmethod
    def create(cls, count: int, bandwidth: float | None = None) -> VirtualHosts:
        """Creates hosts, with all links up.

        Args:
          bandwidth: bits per second that each cable carries in each direction, or None for no
            limit.

        Raises:
          ConfigError: this machine does not permit them.
        """
        try:
            return _create(count, bandwidth)
        except (OSError, subprocess.SubprocessError):
            raise _not_permitted() from None

    def set_link(self, index: int, *, up: bool) -> None:
        """Sets the link of a host up or down.

        Raises:
          OSError: the kernel rejected it.
        """
        if not netns.is_supported(_start("set_link", self._switch.descriptors, index, up)):
            raise OSError(f"the cable of host {index} could not be moved")

    def close(self) -> None:
        """Closes the descriptors. Each namespace ends with its last process."""
        for network in (self._switch, *self.networks):
            network.close()


def check_hosts() -> None:
    """Raises ConfigError if a cluster cannot have a host for each task."""
    if not virtual_hosts_supported():
        raise _not_permitted()


@functools.cache
def virtual_hosts_supported() -> bool:
    """Whether this process may create connected hosts, which is tested once, in 0.2 s."""
    if not capabilities.has_namespaces():
        return False
    try:
        with closing(_create(2)) as hosts:
            first, second = (network.descriptors for network in hosts.networks)
            return netns.is_supported(_start("try", [*first, second[-1]]))
    except (OSError, subprocess.SubprocessError):
        return False


def _not_permitted() -> ConfigError:
    message = _(
        'network="per_task" is not supported here: this machine forbids network namespaces, or '
        "its kernel has no virtual cables (veth), no bridge or no token bucket filter. Leave "
        "network out, or use another machine."
    )
    return ConfigError(message)


def _address(index: int) -> str:
    return str(NETWORK[index + 1])


def _create(count: int, bandwidth: float | None = None) -> VirtualHosts:
    """Starts a child that creates the namespaces, and opens them before the child ends."""
    fill_standard()
    namespaces = netns.open_namespaces(_start("make", [], count, int(bandwidth or 0)))
    switch, hosts = namespaces[:-count], namespaces[-count:]
    user = switch[:-1]  # which contains all others, if it was required
    return VirtualHosts(Network(switch), [Network([*map(os.dup, user), host]) for host in hosts])


def _start(action: str, descriptors: Sequence[int], *numbers: int) -> subprocess.Popen[str]:
    program = ("-c", PROGRAM, PACKAGES)
    return netns.start_child(descriptors, action, *map(int, numbers), program=program)


def main(action: str, *numbers: str) -> None:
    """Runs the child: creates hosts, sets a link, or tests two hosts."""
    actions: Mapping[str, Callable[..., None]] = {"make": _make, "set_link": _set_link, "try": _try}
    actions[action](*map(int, numbers))


def _make(count: int, bandwidth: int) -> None:
    """Creates hosts and their switch, and holds their namespaces open."""
    names = netns.unshare()
    switch = _open_netns()
    _add_link(BRIDGE, "bridge")
    hosts = [_add_host(index, switch, bandwidth) for index in range(count)]
    netns.publish_and_wait([*names, *(f"fd/{namespace}" for namespace in (switch, *hosts))])


def _add_host(index: int, switch: int, bandwidth: int) -> int:
    """Creates a namespace with a link to the switch."""
    netns.check_errno(netns.libc().unshare(netns.CLONE_NEWNET))
    host = _open_netns()
    netns.set_link("lo", up=True)
    netns.setns(switch)
    _add_link(_bridge_port(index), "veth", master=BRIDGE, peer=_veth_in(host))
    netns.setns(host)
    netns.set_link(VETH, up=True)
    _give_address(VETH, _address(index))
    if bandwidth:
        netns.set_bandwidth(VETH, bandwidth)
        netns.setns(switch)
        netns.set_bandwidth(_bridge_port(index), bandwidth)
    return host


def _open_netns() -> int:
    return os.open(f"/proc/self/{netns.OWN_NETWORK}", os.O_RDONLY)


def _bridge_port(index: int) -> str:
    return f"port{index}"


def _add_link(name: str, kind: str, *, master: str | None = None, peer: bytes = b"") -> None:
    """Creates a network interface, and sets it up.

    Args:
      master: the bridge that it is a port of.
      peer: the other end of a pair.
    """
    about = netlink_attr(IFLA_INFO_KIND, kind.encode() + b"\0") + netlink_attr(IFLA_INFO_DATA, peer)
    body = _link(name, up=True) + netlink_attr(IFLA_LINKINFO, about)
    if master:
        body += netlink_attr(IFLA_MASTER, struct.pack("=I", socket.if_nametoindex(master)))
    netns.netlink_request(RTM_NEWLINK, body)


def _veth_in(host: int) -> bytes:
    """The attribute for the end of a link in the namespace of a host."""
    namespace = netlink_attr(IFLA_NET_NS_FD, struct.pack("=I", host))
    return netlink_attr(VETH_INFO_PEER, _link(VETH, up=False) + namespace)


def _link(name: str, *, up: bool) -> bytes:
    flags = netns.IFF_UP * up
    head = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, flags, flags)  # struct ifinfomsg
    return head + netlink_attr(IFLA_IFNAME, name.encode() + b"\0")


def _give_address(interface: str, address: str) -> None:
    index = socket.if_nametoindex(interface)
    head = struct.pack("=BBBBI", socket.AF_INET, NETWORK.prefixlen, 0, 0, index)  # ifaddrmsg
    value = socket.inet_aton(address)
    netns.netlink_request(
        RTM_NEWADDR, head + netlink_attr(IFA_LOCAL, value) + netlink_attr(IFA_ADDRESS, value)
    )


def _set_link(*numbers: int) -> None:
    *namespaces, index, up = numbers
    netns.setns_all(namespaces)
    netns.set_link(_bridge_port(index), up=bool(up))


def _try(*namespaces: int) -> None:
    """Listens on host 0, and connects to it from host 1."""
    *first, second = namespaces
    netns.setns_all(first)
    with socket.create_server((_address(0), PORT)) as server:
        netns.setns(second)
        socket.create_connection(server.getsockname(), netns.HELPER_TIMEOUT).close()
