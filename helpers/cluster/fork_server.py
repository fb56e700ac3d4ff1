"""Imports TensorFlow once, and forks workers, which need not import it themselves.

    python -m helpers.cluster.fork_server REQUESTS

Importing TensorFlow costs most of a worker's start time and initial memory, and forks share both. A
fork is safe as long as TensorFlow has run no operation, because only operations start its threads.
So this process imports TensorFlow, and then only forks.

REQUESTS is the descriptor of a socket. Each message is a `Request`, with the descriptors of the new
process: standard input, log, events, status (its pid and its exit code), claim token, and the
namespaces it enters. When the server has imported TensorFlow, it sends `READY_BYTE` once. The last
message is `FAREWELL`, unless the client was killed.
`helpers.cluster.fork_client` is the other side.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import socket
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass

from helpers.protocol.events import EVENT_FD
from helpers.system import keras_version, orphans
from helpers.system.netns import NAMESPACES
from helpers.system.parent_death import continue_on_parent_death, die_with_parent
from helpers.system.tensorflow_import import gc_disabled

MESSAGE_BYTES = 1 << 16
MAX_FDS = 8
PRELOAD = "helpers.course.preload"
READY_BYTE = b"r"  # sent when TensorFlow is imported
FAREWELL = b"f"  # the client's last message, unless it is killed


@dataclass(frozen=True)
class Request:
    """A request for a new worker.

    Attributes:
      arguments: of `helpers.worker.main.main`.
      environment: the variables that differ from the server's environment.
      cwd: its working directory.
      folder: the temporary folder of its run, or None.
    """

    arguments: list[str]
    environment: dict[str, str]
    cwd: str
    folder: str | None = None

    def encode(self) -> bytes:
        """Encodes the request as one message."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, message: bytes) -> Request:
        """Decodes a message of `encode`."""
        return cls(**json.loads(message))


@dataclass(frozen=True)
class Child:
    """A forked worker: its pid, its pidfd, and the pipe for its status."""

    pid: int
    pidfd: int
    status: int


class Server:
    """Handles requests until the socket is closed and the last child has ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, Child] = {}  # by the descriptor that is polled
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._open = True
        self._folders: set[str] = set()  # to delete if the client was killed

    def serve(self) -> None:
        """Forks workers on request, and reports their exit codes.

        If the client has ended without a `FAREWELL`, the temporary folders of its runs are deleted
        after the last worker has ended.
        """
        while self._open or self._children:
            for descriptor, _event in self._poll.poll():
                child = self._children.pop(descriptor, None)
                if child is None:
                    self._answer()
                elif descriptor == child.pidfd:
                    self._report_exit(child)
                else:
                    self._reap(child)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _answer(self) -> None:
        try:
            message, descriptors, _flags, _address = socket.recv_fds(
                self._requests, MESSAGE_BYTES, MAX_FDS
            )
        except ConnectionResetError:  # closed before `READY_BYTE` was read; messages may follow
            return
        if not message:
            self._poll.unregister(self._requests)
            self._open = False
            return
        if message == FAREWELL:
            self._folders.clear()
            return
        request = Request.decode(message)
        if request.folder:
            self._folders.add(request.folder)
        status, token = descriptors[3:5]
        if claim(token) and (pid := self._fork(request, descriptors)):
            child = Child(pid, os.pidfd_open(pid), status)
            self._watch(child, child.pidfd, select.POLLIN)
            descriptors.remove(status)
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork(self, request: Request, descriptors: list[int]) -> int | None:
        """Forks a worker and returns its pid, or None if the system cannot create a process."""
        try:
            pid = os.fork()
        except OSError as error:
            os.write(descriptors[1], f"No process could be forked: {error}\n".encode())
            return None
        if pid == 0:
            self._run_child(request, descriptors)
        return pid

    def _run_child(self, request: Request, descriptors: list[int]) -> None:
        """Runs the worker in this process, which was just forked."""
        code = 1
        try:
            for polled, child in self._children.items():
                for descriptor in {polled, child.status}:  # after its end, only its status
                    os.close(descriptor)
            self._requests.close()
            code = run(request, descriptors)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _watch(self, child: Child, descriptor: int, events: int) -> None:
        self._children[descriptor] = child
        self._poll.register(descriptor, events)

    def _report_exit(self, child: Child) -> None:
        """Reports the exit code of a child, which stays a zombie so that its pid is not reused."""
        info = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert info is not None
        code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        self._kill_orphans(child)
        with suppress(BrokenPipeError):
            os.write(child.status, b"%d\n" % code)
        self._poll.unregister(child.pidfd)
        os.close(child.pidfd)
        self._watch(child, child.status, 0)  # an error means that no process listens anymore

    def _kill_orphans(self, ended: Child) -> None:
        """Kills processes that a worker left behind. Running workers adopt their own orphans."""
        workers = {ended.pid, *(child.pid for child in self._children.values())}
        orphans.kill_descendants(exclude=workers)

    def _reap(self, child: Child) -> None:
        self._poll.unregister(child.status)
        os.close(child.status)
        os.waitpid(child.pid, 0)


def claim(token: int) -> bool:
    """Claims a one-shot token, and returns True for one caller only.

    The server claims it to fork a worker, the client to cancel a worker that was not forked yet. So
    exactly one of them decides whether the process starts.
    """
    try:
        return bool(os.read(token, 1))
    except BlockingIOError:  # its other end is still open in a fork by another thread
        return False


def new_claim_token() -> int:
    """Creates a one-shot token: a pipe that contains one byte and has no writer."""
    token, writer = os.pipe()
    os.set_blocking(token, False)
    os.write(writer, b"t")
    os.close(writer)
    return token


def run(request: Request, descriptors: list[int]) -> int:
    """Runs the worker in a forked process, and returns its exit code."""
    stdin, log, events, status, token, *namespaces = descriptors
    os.setsid()  # Ctrl-C in the notebook must not reach the worker
    os.write(status, b"%d\n" % os.getpid())
    os.close(status)
    for source, target in [(stdin, 0), (log, 1), (log, 2)]:
        os.dup2(source, target)
    for descriptor in (stdin, log, token):
        os.close(descriptor)
    os.chdir(request.cwd)
    os.environ.update(request.environment)
    os.environ[EVENT_FD] = str(events)
    if namespaces:
        os.environ[NAMESPACES] = ",".join(map(str, namespaces))
    tempfile.tempdir = None  # it was looked up in the server's environment
    _reseed_numpy()

    from helpers.worker.main import main

    return main(request.arguments)


def preload() -> None:
    """Imports the modules that workers need. Workers raise and report the errors again."""
    keras = keras_version.version_from_env(os.environ)
    with gc_disabled(), suppress(Exception):
        keras_version.select_keras(keras)
        import helpers.worker.main
        import helpers.worker.run_job

        if keras == 2:
            import helpers.worker.training
        with suppress(Exception):  # the core can be installed without the course
            importlib.import_module(PRELOAD)
        if keras == 3 and "keras" in sys.modules and keras_version.wants_fix():
            import helpers.keras_3  # noqa: F401
    gc.collect()
    gc.freeze()  # a collection would write to every page, which would no longer be shared


def _reseed_numpy() -> None:
    """Seeds NumPy in a fork, which Python's `random` does itself."""
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed()


def main() -> None:
    """Runs the fork server."""
    die_with_parent()
    orphans.become_subreaper()
    # Python 3.12 warns of a fork in a process with threads. OpenBLAS ends its own before a fork.
    warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
    requests = socket.socket(fileno=int(sys.argv[1]))
    preload()
    with suppress(OSError):  # no process asks anymore
        requests.send(READY_BYTE)
    continue_on_parent_death()  # to end after the last descendant
    Server(requests).serve()


if __name__ == "__main__":
    main()
