"""Collects the stacks of running tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from helpers.cluster.processes import TaskProcess
from helpers.cluster.stack_patterns import WaitsFor, locate
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.protocol.stack_dump import REQUEST, SIGNAL, DumpFiles, main_thread, parse
from helpers.tf_config import EVALUATOR, TFConfig

COLLECT_SECONDS = 1.0  # for all tasks together
THREAD_SHARE = 0.4  # of that time, for the thread that answers, before a signal is sent
POLL_INTERVAL = 0.03
MIN_BUSY_SHARE = 0.5  # of a core, from which a task computes and does not wait
STOPPED = ("T", "t")


def collect(
    processes: Sequence[TaskProcess],
    steps: Mapping[str, int],
    seconds: float = COLLECT_SECONDS,
    *,
    before_kill: bool = False,
) -> Stacks:
    """Collects the stacks of all processes that have not ended.

    Args:
      steps: the last step of each task that reported one.
      seconds: how long to wait for answers. A stopped process is not waited for.
      before_kill: whether all processes are killed next, so that a crash does not matter. Otherwise
        only processes that use no CPU get a signal.
    """
    requests = [StackRequest(process) for process in processes if not process.has_exited]
    for request in requests:
        request.send()
    deadline = time.monotonic() + seconds
    _wait(requests, deadline - seconds * (1 - THREAD_SHARE))
    for request in requests:
        if not request.has_answer:
            request.send_signal(force=before_kill)
    _wait(requests, deadline)
    found = [request.result(steps) for request in requests]
    return Stacks({stack.task: stack for stack in found})


def _wait(requests: Sequence[StackRequest], deadline: float) -> None:
    """Waits until all answers are complete."""
    while any([request.is_pending() for request in requests]) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL)


class StackRequest:
    """A request for the stacks of one process, and its answer."""

    def __init__(self, process: TaskProcess) -> None:
        self._process = process
        self._path: Path | None = None
        self._begin = 0  # of the answer, in the file
        self._main = 0
        self._answer = ""
        self._complete = False
        self._before: ProcessState | None = None

    @property
    def has_answer(self) -> bool:
        """Whether an answer has begun to arrive."""
        return bool(self._answer)

    def send(self) -> None:
        """Sends a request to the thread that answers, if the process has one."""
        process = self._process
        if not process.has_started:
            return
        self._before = ProcessState.read(process.pid)
        files = DumpFiles.of(process.log.parent, process.pid)
        with suppress(OSError):  # no such file, or the process has just ended
            requests = os.open(files.requests, os.O_WRONLY | os.O_NONBLOCK)
            try:
                self._expect_answer(files.answers)
                os.write(requests, REQUEST)
            finally:
                os.close(requests)

    def send_signal(self, *, force: bool) -> None:
        """Sends the signal, if the process has announced by a file that it handles it."""
        process = self._process
        if not process.has_started or SIGNAL is None or self._is_stopped:
            return
        if not force and self._is_busy:
            return
        with suppress(OSError):
            if process.is_running and _catches(process.pid, SIGNAL):
                self._expect_answer(DumpFiles.of(process.log.parent, process.pid).signal_answers)
                os.kill(process.pid, SIGNAL)  # not its children, which a signal would end

    def _expect_answer(self, path: Path) -> None:
        """Expects an answer at the end of a file. Raises OSError without that file."""
        with path.open(errors="replace") as file:
            self._main = main_thread(file.readline())
        self._begin = path.stat().st_size
        self._path = path

    def is_pending(self) -> bool:
        """Whether an answer may still arrive. The main thread's stack is the last part of it."""
        if self._path is None or self._complete or self._is_stopped:
            return False
        before, self._answer = self._answer, self._read()
        ended = self._answer == before and f"{self._main:x} " in self._answer
        self._complete = ended or self._process.has_exited
        return not self._complete

    def result(self, steps: Mapping[str, int]) -> TaskStack:
        """The answer as far as it has arrived."""
        task = str(self._process.task)
        threads = parse(self._answer, self._main)
        step = steps.get(task)
        if threads:
            waits_for, place = locate(threads)
            return TaskStack(task, self._refined(waits_for), place, step, tuple(threads))
        if not self._process.has_started:
            return TaskStack(task, WaitsFor.START)
        return TaskStack(
            task, WaitsFor.CONTINUE if self._is_stopped else WaitsFor.UNKNOWN, step=step
        )

    @property
    def _is_stopped(self) -> bool:
        state = ProcessState.read(self._process.pid)
        return state is not None and state.letter in STOPPED

    def _read(self) -> str:
        assert self._path is not None
        with suppress(OSError), self._path.open(errors="replace") as file:
            file.seek(self._begin)
            return file.read()
        return self._answer

    def _refined(self, waits_for: WaitsFor) -> WaitsFor:
        """A call of TensorFlow that uses the CPU does not wait, and one without peers is local."""
        if waits_for != WaitsFor.COLLECTIVE:
            return waits_for
        if self._is_busy:
            return WaitsFor.NOTHING
        return WaitsFor.COLLECTIVE if _has_peers(self._process.config) else WaitsFor.OPERATION

    @property
    def _is_busy(self) -> bool:
        """Whether the process has been computing since the request."""
        now = ProcessState.read(self._process.pid)
        if not self._before or not now:
            return False
        return now.share_since(self._before) > MIN_BUSY_SHARE


class ProcessState(NamedTuple):
    """The state of a process, from proc(5).

    Attributes:
      letter: "T" if it is stopped.
      cpu: the seconds of CPU time it has used.
      time: when it was read.
    """

    letter: str
    cpu: float
    time: float

    @classmethod
    def read(cls, pid: int) -> ProcessState | None:
        """Reads it, or returns None if the system does not provide it."""
        with suppress(OSError, IndexError, ValueError):
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            fields = text.rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            return cls(fields[0], ticks / os.sysconf("SC_CLK_TCK"), time.monotonic())
        return None

    def share_since(self, before: ProcessState) -> float:
        """The cores it has used on average since then."""
        return (self.cpu - before.cpu) / max(self.time - before.time, 1e-6)


def _catches(pid: int, number: int) -> bool:
    """Whether a process handles a signal, which would end it otherwise. True if it is unknown."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        caught = status.partition("\nSigCgt:")[2].partition("\n")[0]
        return bool(int(caught, 16) >> (number - 1) & 1)
    return True


def _has_peers(config: TFConfig) -> bool:
    """Whether its steps need other tasks."""
    trains = config.task.type != EVALUATOR and config.task in config.tasks
    return trains and not config.is_asynchronous and len(config.tasks) > 1
