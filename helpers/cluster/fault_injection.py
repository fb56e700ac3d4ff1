"""Fault injection: what can happen to the processes of a cluster, caused by code."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.cluster.processes import TaskProcess
from helpers.errors import ClusterError, ConfigError, check_seconds, unknown_choice
from helpers.i18n import _, join_items
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.system import capabilities
from helpers.system.virtual_hosts import VirtualHosts, check_hosts

# The options of each fault, with their defaults.
FAULT_OPTIONS: Mapping[FaultType, Mapping[str, float | None]] = {
    FaultType.KILL: {},
    FaultType.PAUSE: {"seconds": None},
    FaultType.THAW: {},
    FaultType.THROTTLE: {"factor": 4},
    FaultType.PARTITION: {"seconds": None},
    FaultType.JOIN: {},
    FaultType.DISK_FULL: {},
    FaultType.FREE_DISK: {},
    FaultType.DELAY_START: {"seconds": 5},
}
UNDOES = {
    FaultType.THAW: FaultType.PAUSE,
    FaultType.JOIN: FaultType.PARTITION,
    FaultType.FREE_DISK: FaultType.DISK_FULL,
}
UNDONE_BY = {fault: undoing for undoing, fault in UNDOES.items()}

RUN_SLICE_SECONDS = 0.04  # shorter ones cost more than their share: after each, work has to resume
MAX_STOP_SECONDS = 0.5  # at most, however late a slice ends: signs of life are to come in time
MAX_SLOWDOWN = 50
MIN_FILE_SIZE_LIMIT = 32  # a full disk has no part in them, but they are files: sem_overview(7)


class FaultInjector:
    """Injects the faults that are asked for, by any thread, and keeps the events that tell of them.

    A fault is injected into a process and ends with it: the task's next process starts without it;
    but for a delay, which is done to the next one.

    Args:
      tasks: those that a run may have.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._task_names = tasks
        self._lock = threading.Lock()  # of all below
        self._events: list[Event] = []
        self._delays: dict[str, float] = {}
        self._active: dict[tuple[str, FaultType], threading.Timer | None] = {}
        self._throttles: dict[str, Throttle] = {}
        self._tasks: Sequence[str] = []  # of the run; none while none is at work
        self._processes: Callable[[], Sequence[TaskProcess]] = list
        self._hosts: VirtualHosts | None = None

    def attach(
        self,
        tasks: Sequence[str],
        processes: Callable[[], Sequence[TaskProcess]],
        hosts: VirtualHosts | None,
    ) -> None:
        """A run begins.

        Args:
          tasks: its tasks, in the order of their hosts.
          processes: gives the present process of each.
          hosts: where each task has one.
        """
        with self._lock:
            self._tasks, self._processes, self._hosts = tasks, processes, hosts
            self._delays = {task: late for task, late in self._delays.items() if task in tasks}
            for task, late in self._delays.items():
                self._record(FaultType.DELAY_START, task, {"seconds": late})

    def detach(self) -> None:
        """The run has ended, and all faults with it."""
        with self._lock:
            timers = [timer for timer in self._active.values() if timer]
            throttles = list(self._throttles.values())
            for state in (self._active, self._throttles, self._delays, self._events):
                state.clear()
            self._tasks, self._processes, self._hosts = [], list, None
        for timer in timers:
            timer.cancel()
            timer.join()
        for throttle in throttles:
            throttle.end()

    def drain_events(self) -> list[Event]:
        """The events of what was done since the last call; waits for what is being done."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def start_delay_for(self, task: str) -> float:
        """A new process of a task is to start: what was done to the last one ends.

        Returns: by how many seconds it is to start late.
        """
        with self._lock:
            if (task, FaultType.PARTITION) in self._active:
                self._set_link(task, up=True)
            for fault in UNDONE_BY:
                self._cancel_timer(task, fault)
            if throttle := self._throttles.pop(task, None):
                throttle.end()
            return self._delays.pop(task, 0.0)

    def inject(self, fault: str, task: str, options: Mapping[str, Any]) -> None:
        """As `LocalCluster.inject_fault`."""
        chosen, values = _validate(fault, options)
        with self._lock:
            known = self._tasks or self._task_names
            if task not in known:
                raise unknown_choice("task", task, known)
            if chosen == FaultType.DELAY_START:
                self._delays[task] = values["seconds"]
            else:
                process = self._process(task)
                try:
                    self._inject(chosen, process, values)
                except ProcessLookupError:  # it ended while we looked at it
                    raise self._no_process(task) from None
            if self._tasks:
                self._record(chosen, task, values)

    def _process(self, task: str) -> TaskProcess:
        if not self._tasks:
            message = _(
                "No run is at work, so there is no process to harm. Call inject_fault while train "
                "or run is at work, from on_event or from another thread; only {fault!r} can "
                "come before."
            )
            raise ClusterError(message.format(fault=FaultType.DELAY_START.value))
        running = self._running()
        if task not in running:
            raise self._no_process(task)
        return running[task]

    def _running(self) -> dict[str, TaskProcess]:
        return {str(one.task): one for one in self._processes() if one.is_running}

    def _no_process(self, task: str) -> ClusterError:
        message = _("{task} does not run now: it has ended, or not begun yet. What runs: {tasks}.")
        return ClusterError(message.format(task=task, tasks=join_items(self._running()) or "—"))

    def _inject(self, fault: FaultType, process: TaskProcess, options: Mapping[str, float]) -> None:
        task = str(process.task)
        if fault in UNDOES and (task, UNDOES[fault]) not in self._active:
            message = _("{fault!r} takes {undone!r} back, which has not been done to {task}.")
            raise ClusterError(
                message.format(fault=fault.value, undone=UNDOES[fault].value, task=task)
            )
        self._apply(fault, process, options)
        self._cancel_timer(task, UNDOES.get(fault, fault))
        if fault in UNDONE_BY:
            timer = None
            if seconds := options.get("seconds"):
                timer = threading.Timer(seconds, self._expire, [fault, process])
                timer.daemon = True
                timer.start()
            self._active[task, fault] = timer

    def _apply(self, fault: FaultType, process: TaskProcess, options: Mapping[str, float]) -> None:
        task = str(process.task)
        throttle = self._throttles.setdefault(task, Throttle(process))
        match fault:
            case FaultType.KILL:
                process.signal(signal.SIGKILL)
            case FaultType.PAUSE | FaultType.THAW:
                throttle.set(frozen=fault == FaultType.PAUSE)
            case FaultType.THROTTLE:
                throttle.set(factor=options["factor"])
            case FaultType.PARTITION | FaultType.JOIN:
                self._set_link(task, up=fault == FaultType.JOIN)
            case FaultType.DISK_FULL | FaultType.FREE_DISK:
                _set_file_size_limit(process.pid, allowed=fault == FaultType.FREE_DISK)

    def _expire(self, fault: FaultType, process: TaskProcess) -> None:
        """In a timer's thread: the time of a fault is over."""
        task = str(process.task)
        with self._lock:
            current = self._active.get((task, fault)) is threading.current_thread()
            if current and process.is_running:
                self._inject(UNDONE_BY[fault], process, {})
                self._record(UNDONE_BY[fault], task, {})

    def _cancel_timer(self, task: str, fault: FaultType) -> None:
        if timer := self._active.pop((task, fault), None):
            timer.cancel()

    def _record(self, fault: FaultType, task: str, options: Mapping[str, float]) -> None:
        self._events.append(
            supervisor_event(
                EventType.FAULT_INJECTED, task, fault=fault.value, options=dict(options)
            )
        )

    def _set_link(self, task: str, *, up: bool) -> None:
        if self._hosts is None:
            check_hosts()  # where none can be had, that is what there is to say
            message = _(
                "All tasks of this cluster share one network, so that none can be cut off. Give "
                "each a network of its own: LocalCluster(…, hosts=True)."
            )
            raise ConfigError(message)
        self._hosts.set_link(self._tasks.index(task), up=up)


class Throttle:
    """How fast a process runs. One that is slow is stopped again and again, for a moment each.

    It is stopped as a whole, by SIGSTOP, with all its threads and what it has started.
    """

    def __init__(self, process: TaskProcess) -> None:
        self._process = process
        self._factor = 1.0
        self._frozen = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, *, frozen: bool | None = None, factor: float | None = None) -> None:
        """Freezes it or thaws it; or has it run at 1/factor of its speed, as soon as it runs."""
        self._frozen = self._frozen if frozen is None else frozen
        self._factor = self._factor if factor is None else factor
        self.end()
        self._process.signal(signal.SIGSTOP if self._frozen else signal.SIGCONT)
        if self._factor > 1 and not self._frozen:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._slow, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Ends the thread that slows it down."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def _slow(self) -> None:
        share = self._factor - 1  # of stops to slices
        while not self._over.is_set() and self._process.is_running:
            began = time.monotonic()
            self._process.signal(signal.SIGCONT)
            self._over.wait(min(RUN_SLICE_SECONDS, MAX_STOP_SECONDS / share))
            self._process.signal(signal.SIGSTOP)
            self._over.wait(min(share * (time.monotonic() - began), MAX_STOP_SECONDS))


def _validate(fault: str, given: Mapping[str, Any]) -> tuple[FaultType, dict[str, float]]:
    """A fault and its options.

    Raises:
      ConfigError: there is no such fault, or it cannot be done so.
    """
    try:
        chosen = FaultType(fault)
    except ValueError:
        raise unknown_choice("fault", fault, FaultType) from None
    options = FAULT_OPTIONS[chosen]
    for name, value in given.items():
        if name not in options:
            message = _("{fault!r} cannot be told {name}={value!r}. What it can be told: {names}.")
            names = join_items(options) or "—"
            raise ConfigError(message.format(fault=fault, name=name, value=value, names=names))
    values = {name: value for name, value in {**options, **given}.items() if value is not None}
    if "seconds" in values:
        check_seconds("seconds", values["seconds"])
    if "factor" in values:
        _check_factor(values["factor"])
    return chosen, values


def _check_factor(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 1 <= value <= MAX_SLOWDOWN:
        message = _("factor={value!r} must be a number from 1, which is full speed, to {most}.")
        raise ConfigError(message.format(value=value, most=MAX_SLOWDOWN))


def _set_file_size_limit(pid: int, *, allowed: bool) -> None:
    """Lets a process write to files, or has that fail with EFBIG, "File too large".

    Python ignores the signal, SIGXFSZ, that would end it else (setrlimit(2), RLIMIT_FSIZE).
    """
    if not capabilities.has_prlimit():
        raise ConfigError(_("Only on Linux can a process be kept from writing. Use another fault."))
    import resource

    most, _hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if allowed else MIN_FILE_SIZE_LIMIT, hard))
