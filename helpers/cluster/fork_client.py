"""The notebook's side of the fork server: asks it for workers, and hears how they end."""

from __future__ import annotations

import functools
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from helpers.cluster.fork_server import READY, Request, claim, new_ticket
from helpers.system import abilities, keras_choice
from helpers.system.machine import nvidia_gpus

POLL_SECONDS = 0.1
END_SECONDS = 1.0
STATUS_BYTES = 100  # more than a number and a code take


@functools.cache
def can_fork() -> bool:
    """Whether workers are forked here. Else each is started, and imports TensorFlow for itself.

    Not with a GPU, whose driver a fork cannot share; nor on macOS; nor where the system does not
    tell of the end of a process by a descriptor, and of the end of a pipe by a signal.
    """
    return (
        abilities.forks_are_safe()
        and abilities.tells_of_ends()
        and abilities.signals_on_close()
        and not nvidia_gpus()
    )


@dataclass(frozen=True)
class Start:
    """What a new worker is given.

    Attributes:
      arguments: of `helpers.worker.program.main`.
      environment: what all workers of this program have in common.
      own: what this one has besides.
      log: the descriptor it prints to.
      events: the one its events go to.
      namespaces: those it enters.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    own: Mapping[str, str]
    log: int
    events: int
    namespaces: Sequence[int]


class ForkServer:
    """A running server, which lives as long as this process or the last that it forked.

    Args:
      environment: of the server, and of what it forks.
    """

    _servers: ClassVar[dict[int, ForkServer]] = {}  # by the Keras they import
    _lock = threading.Lock()

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", "helpers.cluster.fork_server", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._ready = False
        # When the last reference goes, and when this program ends.
        self.end = weakref.finalize(self, _end, self._process, self._requests, os.getpid())

    @classmethod
    def get(cls, environment: Mapping[str, str], after: ForkServer | None = None) -> ForkServer:
        """The one that runs, or a new one: TensorFlow may have read the environment already.
        There is one for each Keras.

        Args:
          environment: what it must have.
          after: one that is of no use any more.
        """
        keras = keras_choice.asked_for(environment)
        with cls._lock:
            server = cls._servers.get(keras)
            if server and (server is after or not server.serves(environment)):
                server.retire()
                server = None
            if server is None:
                server = cls._servers[keras] = cls(environment)
            return server

    @classmethod
    def alive(cls) -> list[ForkServer]:
        """Those that run."""
        return [server for server in cls._servers.values() if server._process.poll() is None]

    @property
    def is_ready(self) -> bool:
        """Whether it has imported TensorFlow, so that a fork comes at once."""
        with self._lock:
            if not self._ready:
                with suppress(BlockingIOError):
                    self._ready = self._requests.recv(1, socket.MSG_DONTWAIT) == READY
            return self._ready

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether it lives and has this environment."""
        return self.environment == environment and self._process.poll() is None

    def retire(self) -> None:
        """Has the server end as soon as nothing runs that it has forked."""
        self._requests.close()

    def fork(self, request: Request, descriptors: Sequence[int]) -> None:
        """Asks for a new process; if the server still imports, it will come soon."""
        socket.send_fds(self._requests, [request.encode()], descriptors)


def _end(server: subprocess.Popen[bytes], requests: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # not in a fork of the notebook's process
        requests.close()  # it ends, but for workers of this program: after them
        assert server.stdin is not None
        server.stdin.close()  # if it still imports, it is killed
        with suppress(subprocess.TimeoutExpired):
            server.wait(END_SECONDS)


class ForkedProcess:
    """A child of the fork server, with what `subprocess.Popen` offers of a process.

    Args:
      lifeline: when this descriptor closes, the process is killed.
      status_pipe: there the process tells its number, and the server its end.
      ticket: who claims it (`fork_server.claim`) decides whether the process begins.
      server: lives at least as long as this object.
    """

    def __init__(
        self, lifeline: int, status_pipe: int, ticket: int, server: ForkServer | None = None
    ) -> None:
        os.set_blocking(status_pipe, False)
        self._server = server
        self._lifeline = lifeline
        self._status_pipe = status_pipe
        self._ticket = ticket
        self._open = True
        self._read = b""
        self._pid: int | None = None
        self._returncode: int | None = None
        self._lock = threading.RLock()  # a panel's button kills what another thread watches

    @property
    def pid(self) -> int:
        """Its number, also that of its process group; waits until the server has forked it.

        Raises:
          ProcessLookupError: it was ended before.
        """
        while self._pid is None:
            if self._returncode is not None:
                raise ProcessLookupError("ended before it began")
            self._listen(POLL_SECONDS)
        return self._pid

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal; None while it runs."""
        self._listen(0)
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end.

        Raises:
          subprocess.TimeoutExpired: it still runs.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._returncode is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("helpers.worker", timeout or 0)
            self._listen(min(left, POLL_SECONDS))
        return self._returncode

    def signal(self, number: int) -> None:
        """Sends a signal to it and whatever it started; none if it has ended."""
        with self._lock:
            waits = self.poll() is None and self._pid is None  # for the server, or for its number
            if waits and number == signal.SIGKILL and claim(self._ticket):
                self._end(-number)
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Kills it if it runs, and lets go of its number."""
        self.signal(signal.SIGKILL)
        self._end(self.wait())

    def _listen(self, seconds: float) -> None:
        """Takes in what is told within `seconds`."""
        if not self._open:
            return
        told = select.poll()
        told.register(self._status_pipe, select.POLLIN)
        told.poll(1000 * seconds)
        with self._lock:
            if not self._open:  # closed by another thread meanwhile
                return
            try:
                data = os.read(self._status_pipe, STATUS_BYTES)
            except BlockingIOError:
                return
            *lines, self._read = (self._read + data).split(b"\n")
            for line in lines:
                if self._pid is None:
                    self._pid = int(line)
                else:
                    self._returncode = int(line)
            if not data and self._returncode is None:  # the server has gone
                self._end(-signal.SIGKILL)

    def _end(self, code: int) -> None:
        """Closes the pipes, which ends the process, if that has not happened yet."""
        with self._lock:
            if self._returncode is None:
                self._returncode = code
            if self._open:
                self._open = False
                for descriptor in (self._lifeline, self._status_pipe, self._ticket):
                    os.close(descriptor)


def fork(start: Start) -> ForkedProcess:
    """A new worker, from the fork server."""
    request = Request(list(start.arguments), dict(start.own), os.getcwd())
    stdin, lifeline = os.pipe()
    status_pipe, status = os.pipe()
    ticket = new_ticket()
    descriptors = [stdin, start.log, start.events, status, ticket, *start.namespaces]
    try:
        server = ForkServer.get(start.environment)
        try:
            server.fork(request, descriptors)
        except ConnectionError:  # it died while we looked at it
            server = ForkServer.get(start.environment, after=server)
            server.fork(request, descriptors)
    except BaseException:
        for descriptor in (lifeline, status_pipe, ticket):
            os.close(descriptor)
        raise
    finally:
        os.close(stdin)
        os.close(status)
    return ForkedProcess(lifeline, status_pipe, ticket, server)
