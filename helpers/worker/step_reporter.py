"""Reports the steps of training, often enough to monitor it and rarely enough to cost nothing.

Also reports the staleness of asynchronous steps.
"""

from __future__ import annotations

import math
import threading
import time

from helpers.protocol.events import EventType
from helpers.tf_config import TFConfig
from helpers.worker.context import Report, WorkerContext

REPORT_INTERVAL = 0.1
SLOW_SECONDS = 1.0
MAX_REPORTS_PER_SECOND = 200  # of all workers except the chief together


class StepReporter:
    """Sends "step" events, at most ten a second, with the speed since the previous event.

    Args:
      context: the context of the work.
      global_batch: examples in one step of all replicas together.

    Attributes:
      step: the last reported step, or 0 before the first report.
    """

    def __init__(self, context: WorkerContext, global_batch: int) -> None:
        self._report = context.report
        self._interval = report_interval(context.config)
        self._global_batch = global_batch
        self._then: float | None = None
        self.step = self._batches = 0

    @property
    def should_report(self) -> bool:
        """Whether it is time for a report."""
        return self._then is None or time.perf_counter() - self._then >= self._interval

    @property
    def has_reported(self) -> bool:
        """Whether there was a report."""
        return self._then is not None

    def report(self, step: int, loss: float, batches: int | None = None) -> None:
        """Reports a step, even if no report is due.

        Args:
          batches: global batches trained so far, if the step does not count them.
        """
        batches = step if batches is None else batches
        now, speed = time.perf_counter(), None
        if self._then is not None:
            speed = (batches - self._batches) * self._global_batch / (now - self._then)
        self._report(EventType.STEP, step=step, loss=loss, examples_per_second=speed)
        self._then, self.step, self._batches = now, step, batches


class SlowStepReporter:
    """Reports a step that lasts longer than a second, once, from a thread.

    A collective may wait for a peer that has ended.

    Args:
      report: sends an event.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._step = (0, math.inf)  # number of batches including this one, and its start time
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, batches: int) -> None:
        """Records that the step of a batch begins."""
        self._step = (batches, time.monotonic())
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Records that it has ended."""
        self._step = (0, math.inf)

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()

    def _watch(self) -> None:
        reported = 0
        while not self._closed.wait(SLOW_SECONDS / 4):
            batches, since = self._step
            if batches != reported and time.monotonic() - since > SLOW_SECONDS:
                self._report(EventType.WAITING, batches=batches)
                reported = batches


class StalenessReporter:
    """Reports the average number of updates by other workers during one step of this worker.

    Args:
      report: sends an event.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._since: int | None = None  # the global step at the last report
        self._own = 0

    def count(self) -> None:
        """Counts a step of this worker."""
        self._own += 1

    def report(self, step: int) -> None:
        """Reports the steps since the last call. The first call only starts the count.

        Args:
          step: the global step. It is fetched during a step, before or after the update of that
            step itself, so the count of the others' updates may be one too low, but never below 0.
        """
        if self._since is not None and self._own:
            others = max(0, step - self._since - self._own)
            self._report(EventType.STALENESS, step=step, updates=others / self._own)
        self._since, self._own = step, 0


def report_interval(config: TFConfig) -> float:
    """Seconds between two reports of a task: a tenth, or more for non-chiefs of a large group.

    One process, the notebook's, reads the events of hundreds of tasks.
    """
    if config.task == config.chief:
        return REPORT_INTERVAL
    return max(REPORT_INTERVAL, len(config.tasks) / MAX_REPORTS_PER_SECOND)
