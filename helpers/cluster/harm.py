"""Harm on purpose: what the world does to the processes of a cluster, done to them by code."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.cluster.processes import TaskProcess
from helpers.errors import ClusterError, ConfigError, check_seconds, unknown_choice
from helpers.i18n import _, join_items
from helpers.messages.events import Deed, Event, Kind, watched
from helpers.system import abilities
from helpers.system.hosts import Hosts, check_hosts

# What each deed may be told besides, and what it takes where it is told nothing.
OPTIONS: Mapping[Deed, Mapping[str, float | None]] = {
    Deed.KILL: {},
    Deed.FREEZE: {"seconds": None},
    Deed.THAW: {},
    Deed.SLOW: {"factor": 4},
    Deed.CUT_OFF: {"seconds": None},
    Deed.JOIN: {},
    Deed.FILL_DISK: {},
    Deed.FREE_DISK: {},
    Deed.DELAY: {"seconds": 5},
}
UNDOES = {Deed.THAW: Deed.FREEZE, Deed.JOIN: Deed.CUT_OFF, Deed.FREE_DISK: Deed.FILL_DISK}
UNDONE_BY = {harm: undoing for undoing, harm in UNDOES.items()}

SLICE_SECONDS = 0.04  # shorter ones cost it more than its share: after each it takes up its work
STOP_SECONDS = 0.5  # at most, however late a slice ends: signs of life are to come in time
SLOWEST = 50
SEMAPHORE_BYTES = 32  # a full disk has no part in them, but they are files: sem_overview(7)


class Harms:
    """Does the deeds that are asked for, by any thread, and keeps the events that tell of them.

    A deed is done to a process and ends with it, so that the task's next process begins unharmed;
    but for a delay, which is done to the next one.

    Args:
      tasks: those that a run may have.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._possible = tasks
        self._lock = threading.Lock()  # of all below
        self._events: list[Event] = []
        self._delays: dict[str, float] = {}
        self._lasting: dict[tuple[str, Deed], threading.Timer | None] = {}
        self._paces: dict[str, Pace] = {}
        self._tasks: Sequence[str] = []  # of the run; none while none is at work
        self._processes: Callable[[], Sequence[TaskProcess]] = list
        self._hosts: Hosts | None = None

    def begin(
        self,
        tasks: Sequence[str],
        processes: Callable[[], Sequence[TaskProcess]],
        hosts: Hosts | None,
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
                self._tell(Deed.DELAY, task, {"seconds": late})

    def end(self) -> None:
        """The run has ended, and all deeds with it."""
        with self._lock:
            timers = [timer for timer in self._lasting.values() if timer]
            paces = list(self._paces.values())
            for state in (self._lasting, self._paces, self._delays, self._events):
                state.clear()
            self._tasks, self._processes, self._hosts = [], list, None
        for timer in timers:
            timer.cancel()
            timer.join()
        for pace in paces:
            pace.end()

    def told(self) -> list[Event]:
        """The events of what was done since the last call; waits for what is being done."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def renewed(self, task: str) -> float:
        """A new process of a task is to start: what was done to the last one ends.

        Returns: by how many seconds it is to start late.
        """
        with self._lock:
            if (task, Deed.CUT_OFF) in self._lasting:
                self._plug(task, joined=True)
            for harm in UNDONE_BY:
                self._forget(task, harm)
            if pace := self._paces.pop(task, None):
                pace.end()
            return self._delays.pop(task, 0.0)

    def do(self, deed: str, task: str, how: Mapping[str, Any]) -> None:
        """As `LocalCluster.harm`."""
        chosen, options = _checked(deed, how)
        with self._lock:
            known = self._tasks or self._possible
            if task not in known:
                raise unknown_choice("task", task, known)
            if chosen == Deed.DELAY:
                self._delays[task] = options["seconds"]
            else:
                process = self._process(task)
                try:
                    self._do(chosen, process, options)
                except ProcessLookupError:  # it ended while we looked at it
                    raise self._no_process(task) from None
            if self._tasks:
                self._tell(chosen, task, options)

    def _process(self, task: str) -> TaskProcess:
        if not self._tasks:
            message = _(
                "No run is at work, so there is no process to harm. Call harm while train or run "
                "is at work, from on_event or from another thread; only {deed!r} can come before."
            )
            raise ClusterError(message.format(deed=Deed.DELAY.value))
        running = self._running()
        if task not in running:
            raise self._no_process(task)
        return running[task]

    def _running(self) -> dict[str, TaskProcess]:
        return {str(one.task): one for one in self._processes() if one.runs}

    def _no_process(self, task: str) -> ClusterError:
        message = _("{task} does not run now: it has ended, or not begun yet. What runs: {tasks}.")
        return ClusterError(message.format(task=task, tasks=join_items(self._running()) or "—"))

    def _do(self, deed: Deed, process: TaskProcess, options: Mapping[str, float]) -> None:
        task = str(process.task)
        if deed in UNDOES and (task, UNDOES[deed]) not in self._lasting:
            message = _("{deed!r} takes {harm!r} back, which has not been done to {task}.")
            raise ClusterError(message.format(deed=deed.value, harm=UNDOES[deed].value, task=task))
        self._apply(deed, process, options)
        self._forget(task, UNDOES.get(deed, deed))
        if deed in UNDONE_BY:
            timer = None
            if seconds := options.get("seconds"):
                timer = threading.Timer(seconds, self._take_back, [deed, process])
                timer.daemon = True
                timer.start()
            self._lasting[task, deed] = timer

    def _apply(self, deed: Deed, process: TaskProcess, options: Mapping[str, float]) -> None:
        task = str(process.task)
        pace = self._paces.setdefault(task, Pace(process))
        match deed:
            case Deed.KILL:
                process.signal(signal.SIGKILL)
            case Deed.FREEZE | Deed.THAW:
                pace.set(frozen=deed == Deed.FREEZE)
            case Deed.SLOW:
                pace.set(factor=options["factor"])
            case Deed.CUT_OFF | Deed.JOIN:
                self._plug(task, joined=deed == Deed.JOIN)
            case Deed.FILL_DISK | Deed.FREE_DISK:
                _let_write(process.pid, allowed=deed == Deed.FREE_DISK)

    def _take_back(self, harm: Deed, process: TaskProcess) -> None:
        """In a timer's thread: the time of a deed is over."""
        task = str(process.task)
        with self._lock:
            current = self._lasting.get((task, harm)) is threading.current_thread()
            if current and process.runs:
                self._do(UNDONE_BY[harm], process, {})
                self._tell(UNDONE_BY[harm], task, {})

    def _forget(self, task: str, harm: Deed) -> None:
        if timer := self._lasting.pop((task, harm), None):
            timer.cancel()

    def _tell(self, deed: Deed, task: str, options: Mapping[str, float]) -> None:
        self._events.append(watched(Kind.HARM, task, deed=deed.value, how=dict(options)))

    def _plug(self, task: str, *, joined: bool) -> None:
        if self._hosts is None:
            check_hosts()  # where none can be had, that is what there is to say
            message = _(
                "All tasks of this cluster share one network, so that none can be cut off. Give "
                "each a network of its own: LocalCluster(…, hosts=True)."
            )
            raise ConfigError(message)
        self._hosts.plug(self._tasks.index(task), joined=joined)


class Pace:
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
        while not self._over.is_set() and self._process.runs:
            began = time.monotonic()
            self._process.signal(signal.SIGCONT)
            self._over.wait(min(SLICE_SECONDS, STOP_SECONDS / share))
            self._process.signal(signal.SIGSTOP)
            self._over.wait(min(share * (time.monotonic() - began), STOP_SECONDS))


def _checked(deed: str, how: Mapping[str, Any]) -> tuple[Deed, dict[str, float]]:
    """A deed and its options.

    Raises:
      ConfigError: there is no such deed, or it cannot be done so.
    """
    try:
        chosen = Deed(deed)
    except ValueError:
        raise unknown_choice("deed", deed, Deed) from None
    options = OPTIONS[chosen]
    for name, value in how.items():
        if name not in options:
            message = _("{deed!r} cannot be told {name}={value!r}. What it can be told: {names}.")
            names = join_items(options) or "—"
            raise ConfigError(message.format(deed=deed, name=name, value=value, names=names))
    values = {name: value for name, value in {**options, **how}.items() if value is not None}
    if "seconds" in values:
        check_seconds("seconds", values["seconds"])
    if "factor" in values:
        _check_factor(values["factor"])
    return chosen, values


def _check_factor(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 1 <= value <= SLOWEST:
        message = _("factor={value!r} must be a number from 1, which is full speed, to {most}.")
        raise ConfigError(message.format(value=value, most=SLOWEST))


def _let_write(pid: int, *, allowed: bool) -> None:
    """Lets a process write to files, or has that fail with EFBIG, "File too large".

    Python ignores the signal, SIGXFSZ, that would end it else (setrlimit(2), RLIMIT_FSIZE).
    """
    if not abilities.limits_others():
        raise ConfigError(_("Only on Linux can a process be kept from writing. Use another deed."))
    import resource

    most, _hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if allowed else SEMAPHORE_BYTES, hard))
