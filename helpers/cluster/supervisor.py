"""Watches a group of processes, and starts it again when one of them fails.

The group is the unit, as in torchrun: TensorFlow's collectives do not survive the loss of one
member, nor take in a new one, so one fault ends all processes and a new group, on new ports,
goes on from the last checkpoint. The exception is a worker beside parameter servers: it holds
no state, and nobody waits for it, so it gets a successor at its address.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator
from contextlib import closing

from helpers.cluster.deadlines import Deadlines
from helpers.cluster.group import Fault, Group, Replacements
from helpers.cluster.launcher import Launcher
from helpers.cluster.processes import TaskProcess
from helpers.errors import ClusterError
from helpers.i18n import ngettext
from helpers.messages.events import Event, Kind, watched
from helpers.messages.failures import final_error
from helpers.tf_config import TFConfig


class Supervisor:
    """Runs a group until all its processes end well.

    Args:
      launcher: starts the processes of an attempt, and the successor of a lost worker beside
        parameter servers.
      serves: whether a task only serves, and never ends by itself.
      deadlines: when a silence counts as a fault.
      max_restarts: how many faults are answered with a new group, or, in each attempt, with a
        new worker.
    """

    def __init__(
        self,
        launcher: Launcher,
        serves: Callable[[TFConfig], bool],
        deadlines: Deadlines,
        max_restarts: int,
    ) -> None:
        self._launcher = launcher
        self._serves = serves
        self._deadlines = deadlines
        self._max_restarts = max_restarts
        self._woken, self._wake = os.pipe()
        self._group: Group | None = None

    @property
    def processes(self) -> list[TaskProcess]:
        """The present, or last, process of each task."""
        return self._group.processes if self._group else []

    def stop(self) -> None:
        """Ends the run from another thread; `run` then raises StoppedError."""
        os.write(self._wake, b"s")

    def close(self) -> None:
        """Frees the descriptors; call it when `run` has ended."""
        os.close(self._woken)
        os.close(self._wake)

    def run(self) -> Generator[Event, None, None]:
        """Yields every event of every attempt; a "restart" event stands between two attempts.

        Raises:
          UserCodeError: the work itself raised; a new attempt would raise again.
          ClusterError: a fault came after `max_restarts` restarts.
          StoppedError: `stop` was called.
        """
        for attempt in itertools.count():
            replacements = Replacements(self._launcher.replace, self._max_restarts)
            processes = self._launcher.launch(attempt)
            told = self._launcher.harms.told
            group = Group(processes, self._serves, self._deadlines, replacements, told)
            self._group = group
            try:
                with closing(group):
                    for event in group.watch(self._woken):
                        yield event | {"attempt": attempt}
                return
            except Fault as fault:
                if fault.error and not fault.error["restartable"]:
                    raise final_error(str(fault.process.task), fault.error) from None
                if attempt >= self._max_restarts:
                    raise _exhausted(fault, attempt) from None
                about = {"attempt": attempt + 1, "reason": str(fault)}
                yield watched(Kind.RESTART, fault.process.task, **about)


def _exhausted(fault: Fault, restarts: int) -> ClusterError:
    message = ngettext(
        "{fault}; the group was restarted {count} time (max_restarts={count}). "
        "Its last lines, from {log}:",
        "{fault}; the group was restarted {count} times (max_restarts={count}). "
        "Its last lines, from {log}:",
        restarts,
    )
    message = message.format(fault=fault, count=restarts, log=fault.process.log)
    return ClusterError(f"{message}\n{fault.process.log_tail()}")
