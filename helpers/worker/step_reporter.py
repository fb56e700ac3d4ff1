"""Reports the steps of a training: often enough to watch it, seldom enough to cost nothing.

And how stale the steps of asynchronous training are.
"""

from __future__ import annotations

import time

from helpers.protocol.events import EventType
from helpers.tf_config import TFConfig
from helpers.worker.context import Report, WorkerContext

REPORT_INTERVAL = 0.1
MAX_REPORTS_PER_SECOND = 200  # of all workers but the chief, together


class StepReporter:
    """Sends "step" events, at most ten a second, with the speed since the one before.

    Args:
      context: that of the work.
      global_batch: examples in one step of all replicas together.

    Attributes:
      step: the last one that was reported; 0 before there is one.
    """

    def __init__(self, context: WorkerContext, global_batch: int) -> None:
        self._report = context.report
        self._interval = report_interval(context.config)
        self._global_batch = global_batch
        self._then: float | None = None
        self.step = 0

    @property
    def should_report(self) -> bool:
        """Whether it is time for a report."""
        return self._then is None or time.perf_counter() - self._then >= self._interval

    @property
    def has_reported(self) -> bool:
        """Whether there was a report."""
        return self._then is not None

    def report(self, step: int, loss: float) -> None:
        """Reports a step, due or not."""
        now, speed = time.perf_counter(), None
        if self._then is not None:
            speed = (step - self.step) * self._global_batch / (now - self._then)
        self._report(EventType.STEP, step=step, loss=loss, examples_per_second=speed)
        self._then, self.step = now, step


class StalenessReporter:
    """Tells how many updates others made, on average, during a step of this worker's own.

    Args:
      report: sends an event.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._since: int | None = None  # the global step at the last report
        self._own = 0

    def count(self) -> None:
        """Notes a step of this worker."""
        self._own += 1

    def report(self, step: int) -> None:
        """Reports the steps since the last call; the first only begins to count.

        Args:
          step: the global step. It is fetched during a step, before or after the update of that
            step itself, so the others' updates may come out one too few: never below 0.
        """
        if self._since is not None and self._own:
            others = max(0, step - self._since - self._own)
            self._report(EventType.STALENESS, step=step, updates=others / self._own)
        self._since, self._own = step, 0


def report_interval(config: TFConfig) -> float:
    """Seconds between two reports of a task: a tenth, and in a large group more for all but its
    chief, since one process, the notebook's, reads what hundreds send.
    """
    if config.task == config.chief:
        return REPORT_INTERVAL
    return max(REPORT_INTERVAL, len(config.tasks) / MAX_REPORTS_PER_SECOND)
