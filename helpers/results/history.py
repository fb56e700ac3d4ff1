"""The reports of a run's processes, in order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from helpers import labels
from helpers.i18n import _, labeled
from helpers.protocol.events import Event


class StepReport(NamedTuple):
    """One report of one worker.

    Attributes:
      seconds: the time since the call of `train`.
      step: the global step.
      loss: the mean loss over the global batch of that step.
      examples_per_second: the throughput of all workers since the previous report, or None in the
        first report.
      attempt: the number of restarts so far.
    """

    seconds: float
    step: int
    loss: float
    examples_per_second: float | None
    attempt: int


def split_by_attempt(
    points: Sequence[StepReport] | Sequence[Staleness],
) -> Iterator[tuple[int, int]]:
    """The index range of the reports of each attempt, found by bisection."""
    start = 0
    while start < len(points):
        attempt = points[start].attempt
        end = bisect_right(points, attempt, start, key=lambda point: point.attempt)
        yield start, end
        start = end


class Staleness(NamedTuple):
    """The staleness of the gradients of a worker.

    Attributes:
      step: the global step.
      updates: the mean number of updates by other workers during a step of this worker, over the
        steps after the previous report.
      attempt: the number of restarts so far.
    """

    step: int
    updates: float
    attempt: int


class Evaluation(NamedTuple):
    """The metrics of one checkpoint on the test split, `seconds` after the call of `train`."""

    step: int
    metrics: dict[str, Any]
    seconds: float = 0.0

    @property
    def accuracy(self) -> float | None:
        """The metric "accuracy", from 0 to 1, or None if it is not a number."""
        accuracy = self.metrics.get("accuracy")
        return accuracy if isinstance(accuracy, (int, float)) else None


class Resize(NamedTuple):
    """A change in the number of workers.

    Attributes:
      step: the last global step before the change.
      previous: the number of workers before it.
      workers: the number of workers after it.
      reason: why it changed, as a sentence without its full stop.
    """

    step: int
    previous: int
    workers: int
    reason: str

    def __str__(self) -> str:
        return labeled(self.numbers, self.reason)

    @property
    def numbers(self) -> str:
        """The change without its reason."""
        message = _("from {previous} to {workers} at step {step}")
        workers = labels.workers(self.workers)
        return message.format(previous=self.previous, workers=workers, step=self.step)

    @classmethod
    def from_event(cls, event: Event) -> Resize:
        """The change that a "group_resized" event reports."""
        return cls(event["step"], event["previous"], event["workers"], event["reason"])
