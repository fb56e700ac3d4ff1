"""How long to wait before a task counts as failed, and the clock that measures it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from helpers.errors import check_seconds
from helpers.system.machine import cores

DEFAULT_START_TIMEOUT = 60.0  # of a group whose workers have at least half a core each
MAX_TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds, before a task or the group counts as failed.

    Attributes:
      start: from the start of the processes until all of them are ready to train.
      heartbeat: without an event from one process.
      progress: without a step, or other progress, of the group.
    """

    start: float
    heartbeat: float
    progress: float

    @classmethod
    def checked(cls, start: float, step: float, heartbeat: float | None = None) -> Timeouts:
        """Creates them from `start_timeout`, `step_timeout` and `heartbeat_timeout` of a cluster.

        Raises:
          ConfigError: one of them is not a number of seconds.
        """
        heartbeat = step if heartbeat is None else heartbeat
        check_seconds("start_timeout", start)
        check_seconds("step_timeout", step)
        check_seconds("heartbeat_timeout", heartbeat)
        return cls(start, heartbeat, progress=step)


def default_start_timeout(workers: int) -> float:
    """Seconds until a group must be ready, more if many workers import TensorFlow on few cores."""
    return DEFAULT_START_TIMEOUT * max(1.0, workers / (2 * cores()))


class SuspendSafeClock:
    """Monotonic clock that does not count time spent in suspend.

    While the machine sleeps, or while the notebook's process is stopped, the workers cannot make
    progress either, so no timeout may expire.

    Args:
      time: the seconds of a clock that never goes backward.
    """

    def __init__(self, time: Callable[[], float] = time.monotonic) -> None:
        self._time = time
        self.now = 0.0
        self._last = time()

    def tick(self, *, paused: bool = False) -> None:
        """Adds the time since the last tick, at most `MAX_TICK_SECONDS`, unless `paused`."""
        time_now = self._time()
        if not paused:
            self.now += min(time_now - self._last, MAX_TICK_SECONDS)
        self._last = time_now
