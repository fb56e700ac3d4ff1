"""The processes of a project, started and observed by the kernel.

Every operation has a deadline, and leaving the `with` block ends all processes, also after Ctrl-C.
If the kernel ends in any way, the processes end with it (`helpers.system.parent_death`).
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from helpers.course import process_memory
from helpers.course.projects import printed, wire
from helpers.course.projects.adapters import Address
from helpers.course.projects.relay import Relay, listening_socket
from helpers.system import orphans, parent_death, programs

MESSAGE_TIMEOUT = 10.0  # for one message to or from a process that works
AFTER_FAILURE = 1.0  # seconds that processes have to answer after another one has failed
HANG = 8.0  # seconds after which a call counts as one that never returns
GRACE = 6.0  # seconds beyond the timeout, because the machine may be busy
LOG_BYTES, LOG_CHARACTERS = 20_000, 2000  # of the output that is read, and shown
WORKER = "helpers.course.projects.worker"
RETURNED, RAISED, LATE, DEAD = "returned", "raised", "late", "dead"


class Reply(NamedTuple):
    """What one process did with an operation.

    Attributes:
      kind: RETURNED, RAISED an error, LATE if the deadline passed, DEAD if the process ended.
      text: the error, or the last lines that a dead process printed.
      type: the name of the error's class.
      seconds: of each repetition.
      changed: whether the call changed its arguments.
      other: the text of a result that is no array.
      file, line: the last line of the student's code in the traceback of the error.
    """

    kind: str
    text: str = ""
    type: str = ""
    seconds: tuple[float, ...] = ()
    changed: bool = False
    other: str = ""
    file: str = ""
    line: int = 0


class Member:
    """One process of a group, with the socket on which it listens, and its log."""

    def __init__(self, rank: int, folder: Path, logs: Path) -> None:
        self.rank = rank
        self._log = logs / f"{rank}.log"
        with ExitStack() as stack:
            listener = stack.enter_context(listening_socket())
            self.address: Address = listener.getsockname()[:2]
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            self.connection = Connection(_with_timeout(ours).detach())
            numbers = [theirs.fileno(), listener.fileno()]
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    programs.command(WORKER, *map(str, numbers)),
                    cwd=folder,
                    env=_environment(logs),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=numbers,
                    start_new_session=True,  # Ctrl-C in the notebook must not reach it
                )

    @property
    def pid(self) -> int:
        """The id of the process, and of its session."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def log_tail(self) -> str:
        """The last lines that the process printed."""
        return "\n".join(self.output()[-LOG_CHARACTERS:].splitlines()[-5:])

    def output(self) -> str:
        """The end of what the process printed."""
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - LOG_BYTES))
            return log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Kills the process and all its descendants, and waits for its end."""
        self.connection.close()
        for pid in orphans.descendants(self.pid) if self._process.poll() is None else []:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):  # also of a process that has ended
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin
        parent_death.stop_guard(self._process.stdin.fileno())
        self._process.stdin.close()


class ProcessGroup:
    """N real processes that run a student's module behind an adapter.

        with ProcessGroup(Path("ring_all_reduce.py"), "ring_all_reduce", workers=2) as group:
            group.open(seconds=8)
            group.put([[array], [array]])
            replies = group.call("all_reduce", seconds=8)
            results = group.fetch(seconds=8)

    Args:
      module: the file that the student wrote.
      adapter: the name of a function in `adapters`.
      timeout: the seconds after which the student's code must raise an error if another process
        does not answer.
      relayed: whether all connections go through a relay, which counts them but needs time.
      latency: the seconds by which the relay delays each message.
    """

    def __init__(
        self,
        module: Path,
        adapter: str,
        workers: int,
        *,
        timeout: float = 2.0,
        relayed: bool = True,
        latency: float = 0.0,
    ) -> None:
        self._module, self._adapter, self.timeout = module.resolve(), adapter, timeout
        self._workers, self._relayed, self._latency = workers, relayed, latency
        self.relay: Relay | None = None
        self.members: list[Member] = []
        self._stack = ExitStack()

    def __enter__(self) -> ProcessGroup:
        try:
            logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="project-")))
            self._stack.callback(self._keep_output)  # after the end of all processes
            for rank in range(self._workers):
                member = Member(rank, self._module.parent, logs)
                self._stack.callback(member.close)
                self.members.append(member)
            if self._relayed:
                self.relay = Relay([member.address for member in self.members], self._latency)
                self._stack.callback(self.relay.close)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _keep_output(self) -> None:
        printed.add([member.output() for member in self.members])

    @property
    def sent(self) -> list[int]:
        """The bytes that each process has sent to the others so far, as counted by the relay."""
        assert self.relay
        return list(self.relay.sent)

    def open(
        self, seconds: float, ranks: Sequence[int] | None = None, *, wait_for_all: bool = False
    ) -> list[Reply]:
        """Makes all processes, or these ranks, import the module and call the adapter.

        Args:
          wait_for_all: as in `call`.
        """
        ranks = self._ranks(ranks)
        own = [member.address for member in self.members]
        messages = [
            {
                "module": str(self._module),
                "adapter": self._adapter,
                "rank": rank,
                "addresses": self.relay.addresses(rank, own[rank]) if self.relay else own,
                "timeout": self.timeout,
            }
            for rank in ranks
        ]
        for rank, message in zip(ranks, messages, strict=True):
            _send(self.members[rank], {"operation": "open", **message})
        return self._replies(ranks, seconds, wait_for_all)

    def put(
        self,
        arguments: Sequence[Sequence[Any]],
        seconds: float = MESSAGE_TIMEOUT,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """Sends each process, or each of these ranks, the arguments of its next calls."""
        ranks = self._ranks(ranks)
        for rank, arrays in zip(ranks, arguments, strict=True):
            _send(self.members[rank], {"operation": "put"}, arrays)
        self._replies(ranks, seconds)

    def call(
        self,
        method: str,
        seconds: float,
        *,
        repeat: int = 1,
        awaited: Sequence[int] | None = None,
        wait_for_all: bool = False,
    ) -> list[Reply]:
        """Calls a method of every process's object, and returns the replies.

        A group in which a process is late or dead must not be called again.

        Args:
          awaited: the ranks whose replies are returned (default: all).
          wait_for_all: whether the others get their full time after a process has failed. By
            default they get a second, because they probably wait for it.
        """
        self.start(method, repeat=repeat)
        return self._replies(self._ranks(awaited), seconds, wait_for_all)

    def start(self, method: str, ranks: Sequence[int] | None = None, *, repeat: int = 1) -> None:
        """Starts a call in all processes, or in these ranks, and does not wait for its end."""
        for rank in self._ranks(ranks):
            _send(self.members[rank], {"operation": "call", "method": method, "repeat": repeat})

    def wait_for_any(self, ranks: Iterable[int], seconds: float) -> dict[int, Reply]:
        """The replies of those ranks whose call ends first, or none if the time has passed."""
        running = {self.members[rank].connection: rank for rank in ranks}
        ended = [running[end] for end in wait(list(running), seconds)]  # type: ignore[index]
        return {rank: _receive(self.members[rank])[0] for rank in ended}

    def fetch(
        self, seconds: float = MESSAGE_TIMEOUT, ranks: Sequence[int] | None = None
    ) -> list[Any]:
        """The last result of each process or of these ranks: an array, or else a `Reply`."""
        ranks = self._ranks(ranks)
        for rank in ranks:
            _send(self.members[rank], {"operation": "fetch"})
        answers = self._answers(ranks, seconds)
        return [arrays[0] if arrays else reply for reply, arrays in answers]

    def reset_peaks(self) -> list[int | None]:
        """Restarts the measurement of peak memory, and returns the memory in use (see proc(5))."""
        for member in self.members:
            with suppress(OSError):
                Path(f"/proc/{member.pid}/clear_refs").write_text("5")
        return [process_memory.read(member.pid) for member in self.members]

    def peaks(self) -> list[int | None]:
        """The peak memory of each process in bytes since `reset_peaks`, or None if unknown."""
        return [process_memory.read(member.pid, process_memory.PEAK) for member in self.members]

    def _ranks(self, ranks: Sequence[int] | None) -> Sequence[int]:
        return range(self._workers) if ranks is None else ranks

    def _replies(
        self, ranks: Iterable[int], seconds: float, wait_for_all: bool = False
    ) -> list[Reply]:
        return [reply for reply, _arrays in self._answers(ranks, seconds, wait_for_all)]

    def _answers(
        self, ranks: Iterable[int], seconds: float, wait_for_all: bool = False
    ) -> list[tuple[Reply, list[Any]]]:
        """The answers of these ranks, in this order, until the deadline."""
        found: dict[int, tuple[Reply, list[Any]]] = {}
        missing = {self.members[rank].connection: rank for rank in ranks}
        order, deadline = list(missing.values()), time.monotonic() + seconds
        while missing and (left := deadline - time.monotonic()) > 0:
            for connection in wait(list(missing), left):
                rank = missing.pop(connection)  # type: ignore[call-overload]
                found[rank] = _receive(self.members[rank])
                if found[rank][0].kind != RETURNED and not wait_for_all:
                    deadline = min(deadline, time.monotonic() + AFTER_FAILURE)
        return [found.get(rank, (Reply(LATE), [])) for rank in order]


def _send(member: Member, header: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
    with suppress(OSError):  # it has ended: `_receive` reports it
        wire.send(member.connection, header, arrays)


def _receive(member: Member) -> tuple[Reply, list[Any]]:
    try:
        header, arrays = wire.receive(member.connection)
    except (EOFError, OSError, ValueError):
        return Reply(DEAD, member.log_tail()), []
    if "error" in header:
        file, line = str(header["file"]), int(header["line"])
        return Reply(RAISED, str(header["error"]), str(header["type"]), file=file, line=line), []
    seconds = tuple(map(float, header.get("seconds", ())))
    other = str(header.get("other", ""))
    return Reply(RETURNED, "", "", seconds, bool(header.get("changed")), other), arrays


def _with_timeout(end: socket.socket) -> socket.socket:
    """Limits the time of each read and write, for a process that is frozen within a message."""
    limit = struct.pack("@ll", int(MESSAGE_TIMEOUT), 0)  # struct timeval, see socket(7)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        end.setsockopt(socket.SOL_SOCKET, option, limit)
    return end


def _environment(folder: Path) -> dict[str, str]:
    """Files for tempfile go where they are deleted, and NumPy needs no threads for sums.

    Huge pages would count as memory as soon as a part of them is used.
    """
    own = {"TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1", "NUMPY_MADVISE_HUGEPAGE": "0"}
    return {**os.environ, **own}
