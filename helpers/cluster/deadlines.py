"""How long to wait before a silence counts as a fault, and the clock by which that is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

from helpers.system.machine import cores

START_SECONDS = 60.0  # of a group whose workers have half a core each, or more
MOST_PER_TICK = 1.0  # second


@dataclass(frozen=True)
class Deadlines:
    """How long to wait, in seconds, before a silence counts as a fault.

    Attributes:
      start: from the start of the processes until all of them are ready to train.
      silence: without a sign of life from one process.
      progress: without a step, or other progress, of the group.
    """

    start: float
    silence: float
    progress: float


def default_start_timeout(workers: int) -> float:
    """Seconds until a group must be ready: TensorFlow's import takes its cores' time."""
    return START_SECONDS * max(1.0, workers / (2 * cores()))


class WatchClock:
    """Seconds of watching. A time in which nobody watched does not count.

    When the machine sleeps, or the notebook's process itself is stopped, the workers had no
    more chance to run than the watcher, and no deadline has passed.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def tick(self) -> None:
        """Lets the time since the last tick pass, at most one second."""
        time_now = time.monotonic()
        self.now += min(time_now - self._last, MOST_PER_TICK)
        self._last = time_now
