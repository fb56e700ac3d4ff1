"""Fault injection: code that causes the faults that can affect a cluster's processes."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers import labels
from helpers.cluster.fault_options import ENDING_FAULTS, check_options, fault_type
from helpers.cluster.group_size import GroupSize
from helpers.cluster.processes import TaskProcess
from helpers.cluster.throttle import Throttle
from helpers.errors import ClusterError, ConfigError, unknown_choice
from helpers.i18n import _, join_items
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.system import capabilities
from helpers.system.virtual_hosts import VirtualHosts, check_hosts
from helpers.tf_config import WORKER

logger = logging.getLogger(__name__)

MIN_FILE_SIZE_LIMIT = 32  # bytes, because POSIX semaphores are files too: sem_overview(7)


class FaultInjector:
    """Injects faults into the processes of a run, from any thread, and records events about them.

    A fault ends with its process, and the task's next process starts without it. Only a delayed
    start applies to the next process, and the loss of a machine lasts until it is cleared.

    Args:
      tasks: the names of the tasks that a run can have.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._task_names = tasks
        self._lock = threading.Lock()  # guards all attributes below
        self._events: list[Event] = []
        self._delays: dict[str, float] = {}
        self._active: dict[tuple[str, FaultType], threading.Timer | None] = {}
        self._throttles: dict[str, Throttle] = {}
        self._tasks: Sequence[str] = []  # of the run, or empty between runs
        self._processes: Callable[[], Sequence[TaskProcess]] = list
        self._hosts: VirtualHosts | None = None
        self._size: GroupSize | None = None  # of the run
        self._lost: list[tuple[str, threading.Timer | None]] = []  # tasks whose machines are gone

    def attach(
        self, tasks: Sequence[str], size: GroupSize, hosts: VirtualHosts | None = None
    ) -> None:
        """Starts recording the faults of a run.

        Args:
          tasks: its tasks, in the order of their hosts.
          size: the number of workers, which depends on the available machines.
          hosts: the virtual hosts, if each task has one.
        """
        with self._lock:
            self._tasks, self._hosts, self._size = tasks, hosts, size
            self._delays = {task: late for task, late in self._delays.items() if task in tasks}
            for task, late in self._delays.items():
                self._record(
                    EventType.FAULT_INJECTED, FaultType.DELAY_START, task, options={"seconds": late}
                )

    def set_processes(self, processes: Callable[[], Sequence[TaskProcess]]) -> None:
        """Sets the function that returns the current process of each task."""
        with self._lock:
            self._processes = processes

    def detach(self) -> None:
        """Ends all faults when the run has ended."""
        with self._lock:
            timers = [timer for timer in self._active.values() if timer]
            timers += [timer for _task, timer in self._lost if timer]
            throttles = list(self._throttles.values())
            for state in (self._active, self._throttles, self._delays, self._events, self._lost):
                state.clear()
            self._tasks, self._processes, self._hosts, self._size = [], list, None, None
        for timer in timers:
            timer.cancel()
            timer.join()
        for throttle in throttles:
            throttle.end()

    def drain_events(self) -> list[Event]:
        """Returns and clears the events recorded since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def reset_task(self, task: str) -> None:
        """Ends the faults of a task whose process is about to be replaced."""
        with self._lock:
            if (task, FaultType.PARTITION) in self._active:
                self._set_link(task, up=True)
            for fault in FaultType:
                self._end(task, fault)
            if throttle := self._throttles.pop(task, None):
                throttle.end()

    def take_start_delay(self, task: str) -> float:
        """Returns and clears the delay, in seconds, of the task's next start."""
        with self._lock:
            return self._delays.pop(task, 0.0)

    def inject(self, fault: str, task: str, options: Mapping[str, Any]) -> None:
        """See `LocalCluster.inject_fault`."""
        chosen = fault_type(fault)
        values = check_options(chosen, options)
        with self._lock:
            self._check_task(task)
            if chosen == FaultType.DELAY_START:
                self._delays[task] = values["seconds"]
            else:
                process = self._process(task)
                if chosen == FaultType.NODE_LOSS:
                    self._lose_machine(task, values.get("seconds"))
                try:
                    self._apply(chosen, process, values)
                except ProcessLookupError:  # it ended after the check
                    raise self._no_process(task) from None
                self._end(task, chosen)
                if chosen not in ENDING_FAULTS:
                    self._active[task, chosen] = self._start_timer(
                        chosen, process, values.get("seconds")
                    )
            self._record(EventType.FAULT_INJECTED, chosen, task, options=values)

    def clear(self, fault: str, task: str) -> None:
        """See `LocalCluster.clear_fault`."""
        chosen = fault_type(fault)
        with self._lock:
            self._check_task(task)
            if chosen == FaultType.DELAY_START and task in self._delays:
                del self._delays[task]
            elif chosen == FaultType.NODE_LOSS and any(lost == task for lost, _timer in self._lost):
                self._return_machine(task)
            elif (task, chosen) in self._active:
                try:
                    self._revert(chosen, self._process(task))
                except ProcessLookupError:
                    raise self._no_process(task) from None
            else:
                message = _("{fault!r} is not active in {task}, so it cannot be cleared.")
                raise ClusterError(message.format(fault=fault, task=labels.task(task)))
            self._record(EventType.FAULT_CLEARED, chosen, task)

    def _check_task(self, task: str) -> None:
        known = self._tasks or self._task_names
        if task not in known:
            raise unknown_choice("task", task, known)

    def _process(self, task: str) -> TaskProcess:
        if not self._tasks:
            message = _(
                "Nothing is running, so there is no process to inject a fault into. Call "
                "inject_fault while train or run is running, from on_event or from another "
                "thread. Only {fault!r} can be injected earlier."
            )
            raise ClusterError(message.format(fault=FaultType.DELAY_START.value))
        running = self._running()
        if task not in running:
            raise self._no_process(task)
        return running[task]

    def _running(self) -> dict[str, TaskProcess]:
        return {str(one.task): one for one in self._processes() if one.is_running}

    def _no_process(self, task: str) -> ClusterError:
        message = _(
            "{task} is not running: it has ended, or has not started yet. Running: {tasks}."
        )
        running = join_items(map(labels.task, self._running()))
        return ClusterError(message.format(task=labels.task(task), tasks=running or "—"))

    def _throttle(self, process: TaskProcess) -> Throttle:
        return self._throttles.setdefault(str(process.task), Throttle(process))

    def _apply(self, fault: FaultType, process: TaskProcess, options: Mapping[str, float]) -> None:
        match fault:
            case FaultType.KILL | FaultType.NODE_LOSS:
                process.signal(signal.SIGKILL)
            case FaultType.PREEMPT:
                process.signal(signal.SIGTERM)
            case FaultType.PAUSE:
                self._throttle(process).set(frozen=True)
            case FaultType.THROTTLE:
                self._throttle(process).set(factor=options["factor"])
            case FaultType.PARTITION:
                self._set_link(str(process.task), up=False)
            case FaultType.DISK_FULL:
                _set_file_size_limit(process.pid, allowed=False)

    def _revert(self, fault: FaultType, process: TaskProcess) -> None:
        match fault:
            case FaultType.PAUSE:
                self._throttle(process).set(frozen=False)
            case FaultType.THROTTLE:
                self._throttle(process).set(factor=1.0)
            case FaultType.PARTITION:
                self._set_link(str(process.task), up=True)
            case FaultType.DISK_FULL:
                _set_file_size_limit(process.pid, allowed=True)
        self._end(str(process.task), fault)

    def _lose_machine(self, task: str, seconds: float | None) -> None:
        if not task.startswith(WORKER):
            message = _("{fault!r} can be injected only into a worker, not into {task}.")
            raise ConfigError(
                message.format(fault=FaultType.NODE_LOSS.value, task=labels.task(task))
            )
        assert self._size is not None  # because a process of the run is running
        timer = None
        if seconds is not None:
            timer = threading.Timer(seconds, self._expire_loss, [task])
            timer.daemon = True
            timer.start()
        self._lost.append((task, timer))
        self._size.lose_slot(task)

    def _return_machine(self, task: str) -> None:
        """Makes the machine that the task lost first available again."""
        found = next(lost for lost in self._lost if lost[0] == task)
        self._lost.remove(found)
        if found[1]:
            found[1].cancel()
        assert self._size is not None  # because no loss outlives its run
        self._size.return_slot(task)

    def _expire_loss(self, task: str) -> None:
        """Makes a machine available again, in the timer's thread, when its time has elapsed."""
        with self._lock:
            if any(lost == (task, threading.current_thread()) for lost in self._lost):
                self._return_machine(task)
                self._record(EventType.FAULT_CLEARED, FaultType.NODE_LOSS, task)

    def _start_timer(
        self, fault: FaultType, process: TaskProcess, seconds: float | None
    ) -> threading.Timer | None:
        if seconds is None:
            return None
        timer = threading.Timer(seconds, self._expire, [fault, process])
        timer.daemon = True
        timer.start()
        return timer

    def _expire(self, fault: FaultType, process: TaskProcess) -> None:
        """Clears a fault in the timer's thread when its time is over."""
        task = str(process.task)
        with self._lock:
            current = self._active.get((task, fault)) is threading.current_thread()
            if current and process.is_running:
                self._revert(fault, process)
                self._record(EventType.FAULT_CLEARED, fault, task)

    def _end(self, task: str, fault: FaultType) -> None:
        """Marks a fault as inactive, and cancels its timer."""
        if timer := self._active.pop((task, fault), None):
            timer.cancel()

    def _record(self, event_type: EventType, fault: FaultType, task: str, **fields: Any) -> None:
        if self._tasks:
            logger.info("%s: %s, %s %s", event_type, task, fault, fields.get("options", ""))
            self._events.append(supervisor_event(event_type, task, fault=fault.value, **fields))

    def _set_link(self, task: str, *, up: bool) -> None:
        if self._hosts is None:
            check_hosts()  # raises the more helpful error if this machine has no virtual hosts
            message = _(
                "All tasks of this cluster share one network, so no task can be disconnected. "
                'Create a separate network for each task: LocalCluster(…, network="per_task").'
            )
            raise ConfigError(message)
        self._hosts.set_link(self._tasks.index(task), up=up)


def _set_file_size_limit(pid: int, *, allowed: bool) -> None:
    """Lets a process write to files, or makes every write fail with EFBIG, "File too large".

    Python ignores SIGXFSZ, the signal that would end the process (setrlimit(2), RLIMIT_FSIZE).
    """
    if not capabilities.has_prlimit():
        raise ConfigError(
            _("Blocking a process from writing is possible only on Linux. Use another fault.")
        )
    import resource

    most, _hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if allowed else MIN_FILE_SIZE_LIMIT, hard))
