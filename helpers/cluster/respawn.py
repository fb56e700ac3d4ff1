"""Decides whether a lost worker of a parameter-server group is replaced."""

from __future__ import annotations

import signal
from collections.abc import Callable

from helpers.cluster.group_size import GroupSize
from helpers.cluster.processes import TaskProcess
from helpers.protocol.events import Event


class TaskFailure(Exception):
    """One task failed. The message is a sentence without its full stop."""

    def __init__(
        self,
        process: TaskProcess,
        message: str,
        error: Event | None = None,
        *,
        is_preempted: bool = False,
    ) -> None:
        super().__init__(message)
        self.process = process
        self.error = error
        self.is_preempted = is_preempted


class ResizeDue(Exception):
    """The chief has saved a checkpoint, and the number of workers should change."""


class RespawnPolicy:
    """Respawns lost workers of a coordinator, a limited number of times.

    Args:
      start: starts the process that replaces a lost one.
      max_respawns: how many processes can be replaced in one attempt.
      size: the number of workers, which decides whether a lost worker is replaced.
    """

    def __init__(
        self,
        start: Callable[[TaskProcess], TaskProcess],
        max_respawns: int,
        size: GroupSize | None = None,
    ) -> None:
        self._start = start
        self._left = max_respawns
        self._size = size

    def respawn(self, failure: TaskFailure) -> TaskProcess | None:
        """Replaces the process that failed, or returns None if the others continue without it.

        Raises:
          TaskFailure: the whole group must be restarted. This is the `failure` that was passed.
        """
        lost, size = failure.process, self._size
        if not lost.config.is_respawnable or (failure.error and not failure.is_preempted):
            raise failure
        if size and not size.change_is_due and (not self._left or failure.is_preempted):
            size.exclude_worker()
        leaves = size is not None and size.change_is_due
        if not leaves and not self._left:
            raise failure
        lost.signal(signal.SIGKILL)  # if it is frozen but not dead
        lost.wait()
        if leaves:
            return None
        self._left -= 1
        return self._start(lost)

    def start(self, absent: TaskProcess) -> TaskProcess:
        """Starts a worker that was absent."""
        return self._start(absent)
