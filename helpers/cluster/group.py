"""The processes of one attempt, watched together; and those that take a lost one's place."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from helpers.cluster.equal_steps import EqualSteps
from helpers.cluster.processes import TaskProcess
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _, join_items
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.protocol.failures import error_summary
from helpers.system import machine
from helpers.tf_config import EVALUATOR, Task, TFConfig

POLL_INTERVAL = 0.1
LARGE_GROUP = 63  # processes; with more, timeouts are checked less often, and events read together
BATCH_READ_SECONDS = 0.05
BUSY_SHARE = 0.1  # of a core, below which a task does not compute
MAX_BUILDING = 10  # times the deadline of a start
PROGRESS_EVENTS = (
    EventType.READY,
    EventType.STEP,
    EventType.CHECKPOINT,
    EventType.EVALUATION_PROGRESS,
    EventType.EVALUATION,
    EventType.RESULT,
)


class TaskFailure(Exception):
    """One task failed; the group cannot go on. The message is a sentence without its stop."""

    def __init__(self, process: TaskProcess, message: str, error: Event | None = None) -> None:
        super().__init__(message)
        self.process = process
        self.error = error


class RespawnPolicy:
    """Gives lost workers beside parameter servers a successor, but not for ever.

    Args:
      start: starts the successor of a lost process.
      max_respawns: how many, in one attempt.
    """

    def __init__(self, start: Callable[[TaskProcess], TaskProcess], max_respawns: int) -> None:
        self._start = start
        self._left = max_respawns

    def respawn(self, failure: TaskFailure) -> TaskProcess:
        """The successor of the process that failed.

        Raises:
          TaskFailure: the one given, where the whole group has to begin anew.
        """
        lost = failure.process
        if failure.error or not lost.config.is_respawnable or not self._left:
            raise failure
        self._left -= 1
        lost.signal(signal.SIGKILL)  # if it is frozen, and not dead
        lost.wait()
        return self._start(lost)


class WorkerGroup:
    """The processes of one attempt. Closing it kills those that still run.

    Args:
      processes: those of all tasks, started.
      is_server: whether a task only serves; the group has ended when all others have.
      timeouts: when a silence counts as a fault.
      respawn_policy: gives lost workers a successor, where that is possible.
      drain_events: gives what others did to the processes since it was called last.
    """

    def __init__(
        self,
        processes: Sequence[TaskProcess],
        is_server: Callable[[TFConfig], bool],
        timeouts: Timeouts,
        respawn_policy: RespawnPolicy,
        drain_events: Callable[[], Iterable[Event]] = tuple,
    ) -> None:
        self._processes = list(processes)
        self._is_server = is_server
        self._timeouts = timeouts
        self._respawn_policy = respawn_policy
        self._drain_events = drain_events
        self._clock = SuspendSafeClock()
        self._checked = 0.0  # when timeouts were looked at last
        self._last_heartbeat: dict[Task, float] = {}  # a start has a deadline of its own
        self._last_progress = 0.0
        self._building = 0.0  # when a task computed, before all were ready
        self._cpu: dict[Task, tuple[float, float]] = {}  # seconds used, and when
        self._step = 0
        self._oom_kills = machine.oom_kill_count()
        self._not_ready = {p.task for p in processes if p.task.type != EVALUATOR}
        self._connecting: set[Task] = set()  # those that wait for the others, and cannot speak
        self._slowdown: dict[str, float] = {}  # by which factor, on purpose
        self._errors: dict[str, Event] = {}
        self._equal_steps = EqualSteps()

    @property
    def processes(self) -> list[TaskProcess]:
        """The present process of each task."""
        return list(self._processes)

    def close(self) -> None:
        """Kills what is left; every process is sent its signal before any is waited for."""
        for process in self._processes:
            process.signal(signal.SIGKILL)
        for process in self._processes:
            process.close()

    def monitor(self, stop_fd: int) -> Iterator[Event]:
        """Yields events until every process has ended with 0.

        Args:
          stop_fd: a descriptor that becomes readable when the watching must end.

        Raises:
          TaskFailure: one task failed, or fell silent.
          StoppedError: `stop_fd` became readable.
        """
        yield from self._injected_events()
        with selectors.DefaultSelector() as selector:
            selector.register(stop_fd, selectors.EVENT_READ)
            for process in self._processes:
                selector.register(process.fileno(), selectors.EVENT_READ, process)
                yield supervisor_event(EventType.LAUNCHED, process.task)
            while self._is_active:
                if len(self._processes) > LARGE_GROUP:
                    time.sleep(BATCH_READ_SECONDS)
                try:
                    found = selector.select(POLL_INTERVAL)
                    yield from self._injected_events()  # before what came of it
                    for key, _mask in found:
                        if key.data is None:
                            raise StoppedError(_("The run was stopped."))
                        yield from self._read(key.data)
                        if key.data.has_exited:
                            selector.unregister(key.fd)
                            yield self._reap(key.data)
                    self._clock.tick()
                    self._check_deadlines()
                except TaskFailure as failure:
                    yield from self._injected_events()
                    yield self._respawn(failure, selector)

    def _injected_events(self) -> Iterator[Event]:
        for event in self._drain_events():
            if event["fault"] == FaultType.THROTTLE:
                cleared = event["event"] == EventType.FAULT_CLEARED
                self._slowdown[event["task"]] = 1.0 if cleared else event["options"]["factor"]
            yield event

    @property
    def _is_active(self) -> bool:
        return any(not (p.has_exited or self._is_server(p.config)) for p in self._processes)

    def _respawn(self, failure: TaskFailure, selector: selectors.BaseSelector) -> Event:
        """Puts a successor in the place of the lost process, or raises the fault."""
        lost, index = failure.process, self._processes.index(failure.process)
        new = self._respawn_policy.respawn(failure)
        if not lost.has_exited:
            selector.unregister(lost.fileno())
        lost.close()
        self._processes[index] = new
        self._slowdown.pop(str(new.task), None)
        selector.register(new.fileno(), selectors.EVENT_READ, new)
        self._last_heartbeat[new.task] = self._last_progress = self._clock.now
        return supervisor_event(EventType.RESPAWNED, new.task, reason=str(failure))

    def _read(self, process: TaskProcess) -> Iterator[Event]:
        for event in process.read_events():
            kind = event["event"]
            self._last_heartbeat[process.task] = self._clock.now
            if kind in PROGRESS_EVENTS:
                self._last_progress = self._clock.now
                self._not_ready.discard(process.task)
            if kind == EventType.HEARTBEAT:
                self._note_work(process.task, event.get("cpu"))
            if kind == EventType.CONNECTING:
                self._connecting.add(process.task)
            if kind == EventType.CONNECTED:
                self._connecting.discard(process.task)
            if kind in (EventType.READY, EventType.STEP):
                self._step = max(self._step, event["step"])
            if kind == EventType.ERROR:
                self._errors[str(process.task)] = event
            yield event | {"task": str(process.task)}
            if reason := self._equal_steps.note(process.config, event):
                raise _final(process, reason)

    def _note_work(self, task: Task, cpu: object) -> None:
        """Counts graph building as progress: a task that computes is no task that hangs."""
        if not isinstance(cpu, float) or task in self._connecting:
            return
        before, then = self._cpu.get(task, (cpu, self._clock.now))
        if cpu - before >= BUSY_SHARE * (self._clock.now - then) and cpu > before:
            self._building = self._clock.now
        self._cpu[task] = cpu, self._clock.now

    def _reap(self, process: TaskProcess) -> Event:
        code = process.wait()
        self._not_ready.discard(process.task)
        if code == 0:
            self._equal_steps.end(process.config)
        else:
            if (printed := process.start_error) is not None:
                raise _not_started(printed)
            error = self._errors.get(str(process.task))
            if error and error["retryable"]:
                self._check_peers(process)
            raise TaskFailure(process, self._describe_failure(process, code), error)
        return supervisor_event(EventType.EXIT, process.task, code=code)

    def _describe_failure(self, process: TaskProcess, code: int) -> str:
        if error := self._errors.get(str(process.task)):
            return error_summary(str(process.task), self._step, error)
        values: dict[str, Any] = {"task": process.task, "step": self._step}
        if code == -signal.SIGKILL and machine.oom_kill_count() > self._oom_kills:
            message = _(
                "{task} ended with signal 9 (SIGKILL) at step {step}; meanwhile the kernel killed "
                "a process because memory ran out"
            )
            return message.format(**values)
        if code < 0:
            message = _("{task} ended with signal {number} ({name}) at step {step}")
            return message.format(number=-code, name=_signal_name(-code), **values)
        message = _("{task} ended with exit code {code} at step {step}")
        return message.format(code=code, **values)

    def _check_deadlines(self) -> None:
        now, limits = self._clock.now, self._timeouts
        if now - self._checked < POLL_INTERVAL * max(1, len(self._processes) / LARGE_GROUP):
            return
        self._checked = now
        running = [process for process in self._processes if not process.has_exited]
        for process in running:
            process.truncate_log()
        free = [process for process in running if process.task not in self._connecting]
        for process in free:
            timeout = limits.heartbeat * self._slowdown.get(str(process.task), 1.0)
            if now - self._last_heartbeat.get(process.task, now) > timeout:
                raise self._heartbeat_lost(process, timeout)
        waiting = [process for process in running if process.task in self._not_ready]
        longest = MAX_BUILDING * limits.start
        if waiting and (now - self._building > limits.start or now > longest):
            raise self._start_timed_out(waiting)
        if running and not waiting and now - self._last_progress > limits.progress:
            self._check_peers((free or running)[0])
            raise self._no_progress((free or running)[0])

    def _check_peers(self, process: TaskProcess) -> None:
        """Raises a fault that no restart answers if a task waits for one that has ended."""
        if reason := self._equal_steps.explain(process.config):
            raise _final(process, reason)

    def _heartbeat_lost(self, process: TaskProcess, seconds: float) -> TaskFailure:
        message = _(
            "{task} gave no sign of life for {seconds:g} s, at step {step}: it is stopped, or "
            "starved by other programs"
        )
        return TaskFailure(
            process, message.format(task=process.task, seconds=seconds, step=self._step)
        )

    def _start_timed_out(self, waiting: Sequence[TaskProcess]) -> TaskFailure:
        silent = min(waiting, key=self._suspect_key)
        others = join_items(str(process.task) for process in waiting if process is not silent)
        message = (
            _("{task} was not ready within {seconds:g} s; {others} may only have waited for it")
            if others
            else _("{task} was not ready within {seconds:g} s")
        )
        seconds = self._timeouts.start
        return TaskFailure(silent, message.format(task=silent.task, seconds=seconds, others=others))

    def _suspect_key(self, process: TaskProcess) -> tuple[bool, float]:
        """By which the first is the suspect: who waits for others, or was heard later, did more."""
        return process.task in self._connecting, self._last_heartbeat.get(process.task, -1.0)

    def _no_progress(self, process: TaskProcess) -> TaskFailure:
        message = _(
            "{task} and its peers made no step for {seconds:g} s after step {step}, though all "
            "processes are alive"
        )
        seconds = self._timeouts.progress
        return TaskFailure(
            process, message.format(task=process.task, seconds=seconds, step=self._step)
        )


def _final(process: TaskProcess, reason: str) -> TaskFailure:
    """A fault that a restart would only repeat."""
    error = {
        "retryable": False,
        "type": ConfigError.__name__,
        "message": reason,
        "frames": [],
        "error_class": ConfigError.__name__,
    }
    return TaskFailure(process, reason, error)


def _not_started(printed: str) -> ClusterError:
    message = _(
        "The process from which workers are forked could not start. A file that has the name of a "
        "module of Python may have been imported instead: rename the file. It printed:"
    )
    return ClusterError(f"{message}\n{printed.rstrip()}")


def _signal_name(number: int) -> str:
    """As SIGKILL or, for those of real time that Python has no names for, SIGRTMIN+1."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"
