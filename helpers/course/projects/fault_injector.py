"""Injects faults into the workers that a student's supervisor starts, and records what happens.

It belongs to the kernel. Each worker connects to it before its first message, and asks for its
fault. A worker that reaches the moment of its fault reports that, and gets the signal. So a fault
happens at the same moment of a run on a slow machine, and the supervisor does not know it before.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from helpers.course.projects.relay import listening_socket
from helpers.course.projects.supervised_worker import HOST, START
from helpers.system import parent_death

SIGNALS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}
TICK = 0.05  # seconds between two looks at the clock
POLL = 0.01
CLOSE_TIMEOUT = 5.0


class Fault(NamedTuple):
    """What happens to one worker.

    Attributes:
      rank: the worker.
      kind: "killed" or "frozen" by a signal, "silent", "crashed" with exit code 1, or "quit" with
        exit code 0.
      phase: "start", "compute", "message" (within a message), or "save" (within a checkpoint).
      step: the step at which it happens, 0 at the start.
      damage: of the file, for the phase "save": "empty", "half" or "digit".
    """

    rank: int
    kind: str
    phase: str
    step: int = 0
    damage: str = "half"


class Plan(NamedTuple):
    """The faults of a run.

    Attributes:
      faults: the fault of the first start of the group, of the second one, and so on.
      always: whether the last fault repeats at all further starts.
      traits: harmless properties of workers, by rank: "start_delay", "step_seconds", "log_lines".
    """

    faults: Sequence[Fault] = ()
    always: bool = False
    traits: Mapping[int, Mapping[str, float]] = {}

    def fault(self, rank: int, start: int) -> Fault | None:
        """The fault of a worker that starts for the n-th time, counted from 0."""
        if self.always and self.faults:
            start = min(start, len(self.faults) - 1)
        fault = self.faults[start] if start < len(self.faults) else None
        return fault if fault and fault.rank == rank else None


@dataclass
class Start:
    """One process of a worker.

    Attributes:
      number: how often the group had been started before.
      resume, port: the arguments of its command.
      started_at, fault_at: seconds on the monotonic clock. `fault_at` is None without a fault.
    """

    rank: int
    number: int
    pid: int
    resume: int
    port: int
    started_at: float
    fault_at: float | None = None
    connection: socket.socket = field(kw_only=True, repr=False)
    alive: bool = True


class FaultInjector:
    """Accepts the connections of workers in a thread.

    Args:
      workers: the size of the group.
      patience: the seconds for which a fault at the start waits for the other workers to start.
        Otherwise a fast supervisor could end some of them before they are counted.

    Attributes:
      address: the value of `--control` for the workers.
      starts: all processes, in the order in which they connected.
      largest_gap: the longest pause of a worker's heartbeats or of this thread, in seconds. The
        machine is too busy for a deadline that is not much longer.
      port_busy: whether a worker could not use its port.
      active_at: when a worker last started, worked or ended, in seconds on the monotonic clock.
    """

    def __init__(self, plan: Plan, workers: int, patience: float) -> None:
        self.starts: list[Start] = []
        self.largest_gap = 0.0
        self.port_busy = False
        self.active_at = time.monotonic()
        self._plan, self._workers, self._patience = plan, workers, patience
        self._waiting: list[Start] = []  # for their fault at the start
        self._lines: dict[socket.socket, bytes] = {}
        self._start_of: dict[socket.socket, Start] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = listening_socket()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for_ends(self, seconds: float) -> list[Start]:
        """Waits until all workers have ended, and returns those that have not."""
        deadline = time.monotonic() + seconds
        while (left := self._living()) and time.monotonic() < deadline:
            time.sleep(POLL)
        return left

    def close(self) -> None:
        """Kills all workers that are left, and ends the thread."""
        self._closing = True
        self._thread.join(CLOSE_TIMEOUT)
        for start in self._living():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(start.pid, signal.SIGKILL)
        for connection in self._lines:
            with suppress(OSError):
                parent_death.stop_guard(connection.fileno())
            connection.close()
        self._selector.close()
        self._listener.close()

    def _living(self) -> list[Start]:
        return [start for start in self.starts if start.alive]

    def _run(self) -> None:
        last = time.monotonic()
        while not self._closing:
            for key, _events in self._selector.select(TICK):
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._listener:
                    self._accept()
                else:
                    self._read(end)
            now = time.monotonic()
            self._inject_at_start(now)
            self.largest_gap = max(self.largest_gap, now - last - TICK)
            last = now

    def _accept(self) -> None:
        end, _address = self._listener.accept()
        self._lines[end] = b""
        self._selector.register(end, selectors.EVENT_READ)

    def _read(self, end: socket.socket) -> None:
        data = b""
        with suppress(ConnectionError):
            data = end.recv(4096)
        if not data:  # the process has ended: its descriptors close even if it was killed
            self._selector.unregister(end)
            if start := self._start_of.get(end):
                start.alive = False
            self.active_at = time.monotonic()
            return
        *lines, self._lines[end] = (self._lines[end] + data).split(b"\n")
        for line in lines:
            self._handle(end, json.loads(line))

    def _handle(self, end: socket.socket, message: Mapping[str, Any]) -> None:
        event = message["event"]
        if event == "gap":
            self.largest_gap = max(self.largest_gap, message["seconds"])
            return
        self.active_at = time.monotonic()
        if event == "hello":
            self._answer(end, message)
        elif event == "fault":
            self._inject(self._start_of[end])
        elif event == "port_busy":
            self.port_busy = True

    def _answer(self, end: socket.socket, message: Mapping[str, Any]) -> None:
        """Records a new process, and sends it its fault, unless that happens at once."""
        rank = message["rank"]
        number = self._number(rank)
        about = {name: message[name] for name in ("rank", "pid", "resume", "port")}
        start = Start(**about, number=number, started_at=time.monotonic(), connection=end)
        self._start_of[end] = start
        self.starts.append(start)
        fault = self._plan.fault(rank, number)
        if fault and fault.phase == START:
            self._waiting.append(start)
            return
        answer = {**self._plan.traits.get(rank, {}), "fault": fault._asdict() if fault else None}
        with suppress(ConnectionError):
            end.sendall(json.dumps(answer).encode() + b"\n")

    def _number(self, rank: int) -> int:
        """The start of the group to which a new process of this worker belongs."""
        last = self.starts[-1].number if self.starts else 0
        return last + (rank in self._ranks(last))

    def _ranks(self, number: int) -> set[int]:
        return {start.rank for start in self.starts if start.number == number}

    def _inject_at_start(self, now: float) -> None:
        for start in [*self._waiting]:
            complete = len(self._ranks(start.number)) == self._workers
            if complete or now > start.started_at + self._patience:
                self._waiting.remove(start)
                self._inject(start)

    def _inject(self, start: Start) -> None:
        start.fault_at = time.monotonic()
        fault = self._plan.fault(start.rank, start.number)
        if fault and fault.kind in SIGNALS:
            with suppress(ProcessLookupError):
                os.kill(start.pid, SIGNALS[fault.kind])
