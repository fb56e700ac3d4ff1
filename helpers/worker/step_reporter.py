"""Reports the steps of a training: often enough to watch it, seldom enough to cost nothing."""

from __future__ import annotations

import time

from helpers.messages.events import Kind
from helpers.tf_config import TFConfig
from helpers.worker.context import WorkerContext

REPORT_SECONDS = 0.1
MOST_A_SECOND = 200  # of all workers but the chief, together


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
        self._interval = interval(context.config)
        self._global_batch = global_batch
        self._then: float | None = None
        self.step = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return self._then is None or time.perf_counter() - self._then >= self._interval

    @property
    def has_begun(self) -> bool:
        """Whether there was a report."""
        return self._then is not None

    def send(self, step: int, loss: float) -> None:
        """Reports a step, due or not."""
        now, speed = time.perf_counter(), None
        if self._then is not None:
            speed = (step - self.step) * self._global_batch / (now - self._then)
        self._report(Kind.STEP, step=step, loss=loss, examples_per_second=speed)
        self._then, self.step = now, step


def interval(config: TFConfig) -> float:
    """Seconds between two reports of a task: a tenth, and in a large group more for all but its
    chief, since one process, the notebook's, reads what hundreds send.
    """
    if config.task == config.chief:
        return REPORT_SECONDS
    return max(REPORT_SECONDS, len(config.tasks) / MOST_A_SECOND)
