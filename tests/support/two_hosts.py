"""Two "hosts" on this machine: network namespaces that are joined by a cable.

As root, with `ip` of iproute2. Programs on such a host see its loopback and the other host, but
nothing else of the machine's network. They share files with the other host, as on a network file
system.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import psutil

_numbers = itertools.count()
STOP_TIMEOUT = 10.0


def why_not() -> str:
    """Why this machine cannot have two hosts, or an empty string."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"{program} (iproute2) is not installed"
    if os.geteuid() != 0:
        return "only root may make network namespaces with addresses"
    name = f"probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"network namespaces are forbidden here: {made.stderr.strip()}"
    _ip("netns", "delete", name)
    return ""


class TwoHosts:
    """Host 0 and host 1, and a link between them. Leaving the block kills their processes.

        with TwoHosts(bandwidth="100mbit") as hosts:
            hosts.run(0, ["iperf", "-s"])
            hosts.run(1, ["iperf", "-c", hosts.address(0)]).wait()

    Args:
      bandwidth: of the link, in each direction, in `tc` format ("100mbit"); None for no limit.
    """

    def __init__(self, *, bandwidth: str | None = None) -> None:
        self._bandwidth = bandwidth
        self._number = next(_numbers)
        self._names = [f"host{host}-{os.getpid()}-{self._number}" for host in (0, 1)]
        self._started: tuple[list[subprocess.Popen[Any]], ...] = ([], [])
        self._stack = ExitStack()

    def __enter__(self) -> TwoHosts:
        with self._stack as stack:
            for host, name in enumerate(self._names):
                _ip("netns", "add", name)
                stack.callback(_ip, "netns", "delete", name)
                stack.callback(self.kill, host)
            # Both ends are created in their namespaces, because their names may be taken in the
            # main one.
            ends = ["type", "veth", "peer", "name", "eth0", "netns", self._names[1]]
            _ip("link", "add", "name", "eth0", "netns", self._names[0], *ends)
            for host in (0, 1):
                self._set_up(host)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def address(self, host: int) -> str:
        """The address of a host, private and in no other network of these tests."""
        return f"10.201.{self._number % 250}.{host + 1}"

    def run(self, host: int, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program on a host. `options` are passed to `subprocess.Popen`."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._names[host], *command],
            **{"start_new_session": True, "stdin": subprocess.DEVNULL, **options},
        )
        self._started[host].append(process)
        return process

    def pids(self, host: int) -> set[int]:
        """The processes on a host, whatever started them."""
        inode = os.stat(f"/run/netns/{self._names[host]}").st_ino
        found = set()
        for pid in psutil.pids():
            with suppress(OSError):  # it has ended in the meantime
                if os.stat(f"/proc/{pid}/ns/net").st_ino == inode:
                    found.add(pid)
        return found

    def kill(self, host: int) -> None:
        """Ends every process on a host at once, like a power failure."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while pids := self._running(host):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise TimeoutError(f"host {host} still runs {pids}")
            time.sleep(0.02)

    def _running(self, host: int) -> set[int]:
        """The processes on a host, and processes that are about to enter it."""
        coming = {process.pid for process in self._started[host] if process.poll() is None}
        return self.pids(host) | coming

    def _set_up(self, host: int) -> None:
        inside = ["-n", self._names[host]]
        _ip(*inside, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _ip(*inside, "link", "set", interface, "up")
        if self._bandwidth:
            shape = ["tbf", "rate", self._bandwidth, "burst", "64kb", "latency", "400ms"]
            _run(["tc", *inside, "qdisc", "add", "dev", "eth0", "root", *shape])


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
