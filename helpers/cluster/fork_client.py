"""Client of the fork server, in the notebook's process."""

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

from helpers.cluster.fork_server import FAREWELL, READY_BYTE, Request, claim, new_claim_token
from helpers.cluster.process_handle import ProcessSpec
from helpers.system import capabilities, keras_version, programs
from helpers.system.descriptors import are_exhausted, fill_standard
from helpers.system.machine import nvidia_gpus

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.1
SHUTDOWN_TIMEOUT = 1.0
ERROR_BYTES = 1 << 13  # of the output of a failed server, from its end
STATUS_BYTES = 100  # more than a pid and an exit code need


@functools.cache
def can_fork() -> bool:
    """Whether workers are forked on this machine, or else spawned, so that each imports TensorFlow.

    Workers are not forked on a machine with a GPU, because a fork cannot share its driver, or on
    macOS. The system must also report the end of a process by a descriptor, and the end of a pipe
    by a signal.
    """
    return (
        capabilities.fork_is_safe()
        and capabilities.has_pidfd()
        and capabilities.has_fcntl_setsig()
        and not nvidia_gpus()
    )


class ForkServer:
    """A running fork server, which ends after this process and after the last worker it forked.

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
        # Called when the last reference is dropped, and when this program ends.
        self.end = weakref.finalize(self, _end, self._process, self._requests, os.getpid())

    @classmethod
    def get(cls, environment: Mapping[str, str], after: ForkServer | None = None) -> ForkServer:
        """Returns the server for a Keras version, or starts one if its environment differs.

        A new environment needs a new server, because TensorFlow may have read the old one already.

        Args:
          environment: the environment that the server must have.
          after: a server that is no longer usable.
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
        """Returns the running servers."""
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
        """The output of a server that failed before it could fork, or None."""
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
        _close(self._requests)

    def fork(self, request: Request, descriptors: Sequence[int]) -> None:
        """Requests a new process, which the server forks after it has imported TensorFlow."""
        socket.send_fds(self._requests, [request.encode()], descriptors)


def _error_file() -> IO[bytes] | None:
    """Creates a file that is deleted with its descriptor, or returns None if that fails."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        if are_exhausted(error):
            raise
        return None


def _close(requests: socket.socket) -> None:
    """Closes the connection of a program that deletes its temporary folders itself."""
    with suppress(OSError):  # the server has ended, or the connection is closed
        requests.send(FAREWELL, socket.MSG_DONTWAIT)
    requests.close()


def _end(server: subprocess.Popen[bytes], requests: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # not in a fork of the notebook's process
        _close(requests)  # the server ends after the workers of this program
        assert server.stdin is not None
        server.stdin.close()  # kills the server if it is still importing
        with suppress(subprocess.TimeoutExpired):
            server.wait(SHUTDOWN_TIMEOUT)


class ForkedProcess:
    """A worker forked by the fork server, which implements `ProcessHandle`.

    Args:
      lifeline: when this descriptor is closed, the process is killed.
      status_pipe: receives the pid from the process, and the exit code from the server.
      token: the side that claims it (`fork_server.claim`) decides whether the process starts.
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
        self._lock = threading.RLock()  # panel buttons run in another thread

    @property
    def pid(self) -> int:
        """The id of the process and of its process group. Waits until the server has forked it.

        Raises:
          ProcessLookupError: it was killed before it was forked.
        """
        while self._pid is None:
            if self._returncode is not None:
                raise ProcessLookupError("ended before it began")
            self._poll_status(POLL_INTERVAL)
        return self._pid

    def poll(self) -> int | None:
        """Returns the exit code, or minus the signal number, or None while it runs."""
        self._poll_status(0)
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end.

        Raises:
          subprocess.TimeoutExpired: it is still running.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._returncode is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("helpers.worker", timeout or 0)
            self._poll_status(min(left, POLL_INTERVAL))
        return self._returncode

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children, or does nothing if it has ended."""
        with self._lock:
            waits = self.poll() is None and self._pid is None  # for the server, or for its pid
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
            if not data and self._returncode is None:  # the server has ended
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
    folder = str(spec.folder) if spec.folder else None
    request = Request(list(spec.arguments), dict(spec.extra_env), os.getcwd(), folder)
    stdin, lifeline = os.pipe()
    status_pipe, status = os.pipe()
    token = new_claim_token()
    descriptors = [stdin, spec.log_fd, spec.event_fd, status, token, *spec.namespaces]
    try:
        server = ForkServer.get(spec.env)
        try:
            server.fork(request, descriptors)
        except ConnectionError:  # it died after the check
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
