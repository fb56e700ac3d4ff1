"""Client of the fork server, in the process of the notebook."""

from __future__ import annotations

import functools
import logging
import math
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, ClassVar

from helpers.cluster.fork_server import READY_BYTE, Request, claim, new_claim_token
from helpers.cluster.process_handle import ProcessSpec
from helpers.system import capabilities, keras_version, programs
from helpers.system.descriptors import are_exhausted, fill_standard
from helpers.system.machine import nvidia_gpus

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.1
SHUTDOWN_TIMEOUT = 1.0
ERROR_BYTES = 1 << 13  # the end of what a server that failed has printed
STATUS_BYTES = 100  # more than a number and a code take


@functools.cache
def can_fork() -> bool:
    """Whether workers are forked on this machine; else each is spawned and imports TensorFlow.

    Not with a GPU, whose driver a fork cannot share; nor on macOS; nor where the system does not
    tell of the end of a process by a descriptor, and of the end of a pipe by a signal.
    """
    return (
        capabilities.fork_is_safe()
        and capabilities.has_pidfd()
        and capabilities.has_fcntl_setsig()
        and not nvidia_gpus()
    )


class ForkServer:
    """A running fork server; it ends after this process and after the last worker it forked.

    Args:
      environment: of the server and of the workers it forks.
    """

    _servers: ClassVar[dict[int, ForkServer]] = {}  # by the Keras they import
    _lock = threading.Lock()

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        fill_standard()
        self._errors = _error_file()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                programs.command("helpers.cluster.fork_server", str(theirs.fileno())),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors or subprocess.DEVNULL,
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
        keras = keras_version.version_from_env(environment)
        with cls._lock:
            server = cls._servers.get(keras)
            if server and (server is after or not server.matches(environment)):
                server.shutdown_when_idle()
                server = None
            if server is None:
                logger.info("Starting a fork server with Keras %d", keras)
                server = cls._servers[keras] = cls(environment)
            return server

    @classmethod
    def running(cls) -> list[ForkServer]:
        """The servers that are running."""
        return [server for server in cls._servers.values() if server._process.poll() is None]

    @property
    def is_ready(self) -> bool:
        """Whether it has imported TensorFlow, so that it forks without a delay."""
        with self._lock:
            if not self._ready:
                with suppress(BlockingIOError, ConnectionError):  # not yet, or never
                    self._ready = self._requests.recv(1, socket.MSG_DONTWAIT) == READY_BYTE
            return self._ready

    @property
    def start_error(self) -> str | None:
        """What the server printed, if it failed before it could fork; else None."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(SHUTDOWN_TIMEOUT)
        if not code or code < 0 or self.is_ready:
            return None
        if self._errors is None:
            return ""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), ERROR_BYTES, max(0, size - ERROR_BYTES)).decode(
            errors="replace"
        )

    def matches(self, environment: Mapping[str, str]) -> bool:
        """Whether it is running and has this environment."""
        return self.environment == environment and self._process.poll() is None

    def shutdown_when_idle(self) -> None:
        """Ends the server as soon as all workers that it forked have ended."""
        self._requests.close()

    def fork(self, request: Request, descriptors: Sequence[int]) -> None:
        """Requests a new process; the server forks it after it has imported TensorFlow."""
        socket.send_fds(self._requests, [request.encode()], descriptors)


def _error_file() -> IO[bytes] | None:
    """A file that is deleted with its descriptor, or None if none can be created."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        if are_exhausted(error):
            raise
        return None


def _end(server: subprocess.Popen[bytes], requests: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # not in a fork of the notebook's process
        requests.close()  # it ends, but for workers of this program: after them
        assert server.stdin is not None
        server.stdin.close()  # if it still imports, it is killed
        with suppress(subprocess.TimeoutExpired):
            server.wait(SHUTDOWN_TIMEOUT)


class ForkedProcess:
    """A worker forked by the fork server; implements `ProcessHandle`.

    Args:
      lifeline: when this descriptor is closed, the process is killed.
      status_pipe: receives the pid from the process, and the exit code from the server.
      token: who claims it (`fork_server.claim`) decides whether the process starts.
      server: is kept alive as long as this object.
    """

    def __init__(
        self, lifeline: int, status_pipe: int, token: int, server: ForkServer | None = None
    ) -> None:
        os.set_blocking(status_pipe, False)
        self._server = server
        self._lifeline = lifeline
        self._status_pipe = status_pipe
        self._token = token
        self._open = True
        self._read = b""
        self._pid: int | None = None
        self._returncode: int | None = None
        self.start_error: str | None = None  # why the server could not fork it
        self._lock = threading.RLock()  # a panel's button kills what another thread watches

    @property
    def pid(self) -> int:
        """The process id, also of its process group; waits until the server has forked it.

        Raises:
          ProcessLookupError: it was killed before it was forked.
        """
        while self._pid is None:
            if self._returncode is not None:
                raise ProcessLookupError("ended before it began")
            self._poll_status(POLL_INTERVAL)
        return self._pid

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal; None while it runs."""
        self._poll_status(0)
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
            self._poll_status(min(left, POLL_INTERVAL))
        return self._returncode

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children; does nothing if it has ended."""
        with self._lock:
            waits = self.poll() is None and self._pid is None  # for the server, or for its number
            if waits and number == signal.SIGKILL and claim(self._token):
                self._finish(-number)
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Kills the process if it runs, waits for its end, and closes its pipes."""
        self.signal(signal.SIGKILL)
        self._finish(self.wait())

    def _poll_status(self, seconds: float) -> None:
        """Waits up to `seconds` for the pid or the exit code."""
        if not self._open:
            return
        poller = select.poll()
        poller.register(self._status_pipe, select.POLLIN)
        poller.poll(1000 * seconds)
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
                if self._server and self._pid is None:
                    self.start_error = self._server.start_error
                self._finish(-signal.SIGKILL)

    def _finish(self, code: int) -> None:
        """Sets the exit code if it is not known, and closes the pipes, which ends the process."""
        with self._lock:
            if self._returncode is None:
                self._returncode = code
            if self._open:
                self._open = False
                for descriptor in (self._lifeline, self._status_pipe, self._token):
                    os.close(descriptor)


def fork(spec: ProcessSpec) -> ForkedProcess:
    """Requests a new worker from the fork server."""
    request = Request(list(spec.arguments), dict(spec.extra_env), os.getcwd())
    stdin, lifeline = os.pipe()
    status_pipe, status = os.pipe()
    token = new_claim_token()
    descriptors = [stdin, spec.log_fd, spec.event_fd, status, token, *spec.namespaces]
    try:
        server = ForkServer.get(spec.env)
        try:
            server.fork(request, descriptors)
        except ConnectionError:  # it died while we looked at it
            logger.warning("The fork server has died: starting another one")
            server = ForkServer.get(spec.env, after=server)
            server.fork(request, descriptors)
    except BaseException:
        for descriptor in (lifeline, status_pipe, token):
            os.close(descriptor)
        raise
    finally:
        os.close(stdin)
        os.close(status)
    return ForkedProcess(lifeline, status_pipe, token, server)
