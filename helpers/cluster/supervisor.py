"""Supervises a group of processes, and restarts it when one of them fails.

The group is restarted as a whole, as in torchrun, because TensorFlow's collectives neither survive
the loss of a member nor accept a new one. So one failure ends all processes, and a new group, on
new ports, resumes from the last checkpoint. The exception is a worker in a parameter-server
group. It holds no state and no other task waits for it, so a new process replaces it at the same
address.

An elastic group, which may have fewer workers, is restarted without the lost worker.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import time
from collections.abc import Callable, Generator
from contextlib import closing

from helpers.cluster.debugger_prompts import DebuggerPrompts
from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group import WorkerGroup
from helpers.cluster.group_size import GroupSize, RestartPolicy
from helpers.cluster.launcher import Launcher
from helpers.cluster.processes import TaskProcess
from helpers.cluster.respawn import ResizeDue, RespawnPolicy, TaskFailure
from helpers.cluster.stacks import Stacks
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError, StoppedError
from helpers.i18n import _, ngettext
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.failures import to_exception
from helpers.tf_config import WORKER, TFConfig

logger = logging.getLogger(__name__)

SLOT_POLL_INTERVAL = 0.1


class Supervisor:
    """Runs a group until all its processes succeed.

    Args:
      launcher: starts the processes of an attempt and, in a parameter-server group, the process
        that replaces a lost worker.
      is_server: whether a task only serves, so that it never ends by itself.
      timeouts: how long to wait before a task counts as failed.
      max_restarts: the maximum number of restarts of a group of one size and, in each attempt, of
        respawned workers.
      fault_injector: injects faults into the processes of each attempt.
      size: the number of workers of each attempt.
    """

    def __init__(
        self,
        launcher: Launcher,
        is_server: Callable[[TFConfig], bool],
        timeouts: Timeouts,
        max_restarts: int,
        fault_injector: FaultInjector,
        *,
        size: GroupSize,
    ) -> None:
        self._launcher = launcher
        self._is_server = is_server
        self._timeouts = timeouts
        self._max_restarts = max_restarts
        self._fault_injector = fault_injector
        self._size = size
        self._restarts = RestartPolicy(size, max_restarts)
        self._stop_r, self._stop_w = os.pipe()
        self._group: WorkerGroup | None = None

    @property
    def processes(self) -> list[TaskProcess]:
        """The current or last process of each task."""
        return self._group.processes if self._group else []

    def stacks(self) -> Stacks:
        """The stacks of the running tasks or, after a deadline has passed, the collected ones."""
        return self._group.stacks() if self._group else Stacks()

    def stop(self) -> None:
        """Stops the run from another thread, so that `run` raises StoppedError."""
        os.write(self._stop_w, b"s")

    def close(self) -> None:
        """Closes the descriptors. Call it after `run` has ended."""
        os.close(self._stop_r)
        os.close(self._stop_w)

    def run(self) -> Generator[Event, None, None]:
        """Yields the events of all attempts, with a "group_restart" event between two attempts.

        A "group_resized" event follows it if the number of workers changes.

        Raises:
          UserCodeError: the job itself raised an exception, so a new attempt would raise it again.
          ClusterError: a task failed after `max_restarts` restarts, and the group cannot shrink, or
            too few machines are available.
          StoppedError: `stop` was called, or the reader ended a debugger with `q`.
        """
        for attempt in itertools.count():
            processes = self._launcher.launch(attempt, self._size.current)
            logger.info("Attempt %d: started %d processes", attempt, len(processes))
            group = WorkerGroup(
                processes,
                {str(process.task) for process in processes if self._is_server(process.config)},
                self._timeouts,
                RespawnPolicy(self._launcher.respawn, self._max_restarts, self._size),
                self._fault_injector,
                size=self._size,
            )
            self._group = group
            try:
                with closing(group):
                    prompts = DebuggerPrompts()
                    for event in group.monitor(self._stop_r):
                        yield event | {"attempt": attempt}
                        prompts.observe(event, group.processes)
                        for warning in prompts.serve():
                            yield warning | {"attempt": attempt}
                return
            except TaskFailure as failure:
                self._note(failure)
                task, reason = failure.process.task, str(failure)
            except ResizeDue:
                task, reason = processes[0].task, self._size.reason
            next_attempt = {"attempt": attempt + 1}
            yield supervisor_event(EventType.GROUP_RESTART, task, reason=reason, **next_attempt)
            self._wait_for_slots(reason)
            if resized := self._restarts.resize(group.step, reason, task):
                yield resized | next_attempt

    def _note(self, failure: TaskFailure) -> None:
        """Decides which restart follows a failure, or raises the error of the run."""
        if failure.error and not failure.error["retryable"]:
            raise to_exception(str(failure.process.task), failure.error) from None
        allowed = self._restarts.note_failure(
            str(failure),
            is_worker=failure.process.task.type == WORKER,
            is_preempted=failure.is_preempted,
        )
        if not allowed:
            raise _restarts_exhausted(failure, self._restarts.restarts) from None

    def _wait_for_slots(self, reason: str) -> None:
        """Waits until enough slots are available, for at most the start timeout."""
        deadline = time.monotonic() + self._timeouts.start
        while not self._size.is_possible:
            if not self._size.is_elastic or time.monotonic() > deadline:
                raise self._size.too_few(reason)
            if select.select([self._stop_r], [], [], SLOT_POLL_INTERVAL)[0]:
                raise StoppedError(_("The run was stopped."))


def _restarts_exhausted(failure: TaskFailure, restarts: int) -> ClusterError:
    message = exhaustion_message(str(failure), restarts, failure.process.log)
    return ClusterError(f"{message}\n{failure.process.log_tail()}", reason=str(failure))


def exhaustion_message(fault: str, restarts: int, log: object) -> str:
    """The heading of the last lines of a task that failed after all restarts.

    Args:
      restarts: how many there were; as many as are allowed.
    """
    if not restarts:
        message = _("{fault}; restarts are disabled (max_restarts=0). Its last lines, from {log}:")
        return message.format(fault=fault, log=log)
    message = ngettext(
        "{fault}; the group was restarted {count} time (max_restarts={count}). "
        "Its last lines, from {log}:",
        "{fault}; the group was restarted {count} times (max_restarts={count}). "
        "Its last lines, from {log}:",
        restarts,
    )
    return message.format(fault=fault, count=restarts, log=log)
