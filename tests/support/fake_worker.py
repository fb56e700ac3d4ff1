"""A worker process without TensorFlow, for what supervises workers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

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
    """A process that sends the events of a worker but trains nothing."""

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
        """Waits for the end; minus the number of the signal."""
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
    """Reports a step each `STEP_SECONDS`, until the parent process ends."""
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
