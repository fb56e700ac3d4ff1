"""Workers without TensorFlow: a process that sends a worker's events, and one without a process."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from helpers.cluster.event_lines import LineBuffer
from helpers.cluster.processes import TaskProcess
from helpers.protocol.events import EventType, EventWriter
from helpers.tf_config import TFConfig
from helpers.worker.context import WorkerContext
from helpers.worker.main import send_heartbeats
from helpers.worker.step_reporter import StepReporter

STEP_SECONDS = 0.1
GLOBAL_BATCH = 64


class FakeWorkerProcess(TaskProcess):
    """A process that sends the events of a worker and trains nothing."""

    def __init__(self, config: TFConfig) -> None:
        self.config = config
        self.log = Path(os.devnull)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._forked = os.fork()
        if self._forked == 0:
            _send_events(config, writer)
        os.close(writer)
        self._reader: int | None = reader
        self._lines = LineBuffer()
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._forked

    @property
    def start_error(self) -> None:
        """It can be started."""

    def wait(self, seconds: float = 0.0) -> int:
        """Waits for the end and returns minus the number of the signal."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._forked, 0)[1])
        return self._code

    def signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self._code is None:
            os.kill(self._forked, number)

    def close(self) -> None:
        """Kills the process and closes the pipe."""
        self.signal(signal.SIGKILL)
        self.wait()
        self._close_pipe()


def _send_events(config: TFConfig, events: int) -> None:
    """Sends a step every tenth of a second until the parent process ends."""
    parent = os.getppid()
    with suppress(BaseException):
        report = EventWriter(events)
        context = WorkerContext(config, report)
        report(
            EventType.STARTED, pid=os.getpid(), cores=[], isolated=True, host=socket.gethostname()
        )
        threading.Thread(target=send_heartbeats, args=(report,), daemon=True).start()
        report(EventType.RUN_INFO, total_steps=10**6, global_batch=GLOBAL_BATCH)
        report(EventType.READY, step=0)
        reporter, step = StepReporter(context, GLOBAL_BATCH), 0
        while os.getppid() == parent:
            step += 1
            if reporter.should_report:
                reporter.report(step, 1.0)
            time.sleep(STEP_SECONDS)
    os._exit(0)


class ScriptedProcess(TaskProcess):
    """A worker without a process. The test sends its events, and ends it.

    Attributes:
      signals: the signals sent to it, where SIGKILL ends it.
    """

    def __init__(self, config: TFConfig, log: Path = Path(os.devnull)) -> None:
        self.config = config
        self.log = log
        self.signals: list[int] = []
        reader, self._writer = os.pipe()
        os.set_blocking(reader, False)
        self._reader: int | None = reader
        self._lines = LineBuffer()
        self._code: int | None = None
        self.send = EventWriter(self._writer)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._code is None

    def end(self, code: int = 0) -> None:
        """Ends it with an exit code, or minus the number of a signal."""
        if self._code is None:
            self._code = code
            self.send = EventWriter(None)
            os.close(self._writer)

    @property
    def start_error(self) -> None:
        """It can be started."""

    def wait(self, seconds: float = 0.0) -> int:
        """The exit code."""
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        """Remembers the signal."""
        self.signals.append(number)
        if number == signal.SIGKILL:
            self.end(-number)

    def close(self) -> None:
        """Ends it and closes the pipe."""
        self.end(-signal.SIGKILL)
        self._close_pipe()

    def log_tail(self, lines: int = 12) -> str:
        """The end of its output."""
        return f"the log of {self.task}"


class FakeTime:
    """Seconds that pass only when the time is read, `step` at each reading."""

    def __init__(self, step: float = 1.0) -> None:
        self.step, self.now = step, 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def step(process: ScriptedProcess, number: int) -> None:
    """Sends a step from a worker."""
    fields: dict[str, Any] = {"step": number, "loss": 1.0, "examples_per_second": None}
    process.send(EventType.STEP, **fields)
