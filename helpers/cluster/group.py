"""Supervises the processes of one attempt, and respawns lost workers."""

from __future__ import annotations

import logging
import selectors
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from helpers.cluster.equal_steps import EqualSteps
from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.liveness import LivenessTracker
from helpers.cluster.processes import TaskProcess
from helpers.cluster.stack_collection import collect
from helpers.cluster.stacks import Stacks, describe
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _, join_clauses, join_sentences
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.protocol.failures import error_summary
from helpers.system import machine

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.1
LARGE_GROUP = 63  # with more processes, checks are rarer and events are batched
BATCH_READ_SECONDS = 0.05


class TaskFailure(Exception):
    """One task failed. The message is a sentence without its full stop."""

    def __init__(self, process: TaskProcess, message: str, error: Event | None = None) -> None:
        super().__init__(message)
        self.process = process
        self.error = error


class RespawnPolicy:
    """Respawns lost workers of a coordinator, a limited number of times.

    Args:
      start: starts the process that replaces a lost one.
      max_respawns: how many processes can be replaced in one attempt.
    """

    def __init__(self, start: Callable[[TaskProcess], TaskProcess], max_respawns: int) -> None:
        self._start = start
        self._left = max_respawns

    def respawn(self, failure: TaskFailure) -> TaskProcess:
        """Replaces the process that failed.

        Raises:
          TaskFailure: the given one, if the whole group must be restarted.
        """
        lost = failure.process
        if failure.error or not lost.config.is_respawnable or not self._left:
            raise failure
        self._left -= 1
        lost.signal(signal.SIGKILL)  # if it is frozen but not dead
        lost.wait()
        return self._start(lost)


class WorkerGroup:
    """The processes of one attempt. Closing it kills all processes that are still running.

    Args:
      processes: the started processes of all tasks.
      servers: the names of the tasks that only serve. The group ends when all other tasks have
        ended.
      timeouts: how long to wait before a task counts as failed.
      respawn_policy: replaces lost workers. Without one, each loss is a failure of the group.
      fault_injector: injects faults into these processes, and records the events about them.
      clock: measures the timeouts. The default does not count time spent in suspend.
    """

    def __init__(
        self,
        processes: Sequence[TaskProcess],
        servers: Collection[str],
        timeouts: Timeouts,
        respawn_policy: RespawnPolicy | None = None,
        fault_injector: FaultInjector | None = None,
        *,
        clock: SuspendSafeClock | None = None,
    ) -> None:
        self._processes = list(processes)
        self._servers = servers
        self._respawn_policy = respawn_policy
        self._fault_injector = fault_injector or FaultInjector([])
        self._fault_injector.set_processes(lambda: self._processes)
        self._clock = clock or SuspendSafeClock()
        self._liveness = LivenessTracker([str(p.task) for p in processes], timeouts, self._clock)
        self._checked = 0.0  # when the timeouts were last checked
        self._oom_kills = machine.oom_kill_count()
        self._errors: dict[str, Event] = {}
        self._equal_steps = EqualSteps()
        self._stacks_at_failure = Stacks()
        self._stacks_lock = threading.Lock()

    @property
    def processes(self) -> list[TaskProcess]:
        """The current process of each task."""
        return list(self._processes)

    def stacks(self, *, before_kill: bool = False) -> Stacks:
        """The stacks of the running tasks or, after a failure, those collected before the kill."""
        with self._stacks_lock:  # two answers at once would be mixed in one file
            found = collect(self._processes, self._liveness.steps, before_kill=before_kill)
            return found or self._stacks_at_failure

    def _collect_places(self) -> str | None:
        """Collects the stacks before a kill, and describes them if any task reports its stack."""
        self._stacks_at_failure = stacks = self.stacks(before_kill=True)
        return describe(stacks.values()) if stacks.answered else None

    def close(self) -> None:
        """Kills all processes, and sends all signals before it waits for the first process."""
        for process in self._processes:
            process.signal(signal.SIGKILL)
        for process in self._processes:
            process.close()

    def monitor(self, stop_fd: int) -> Iterator[Event]:
        """Yields events until every task that does not only serve has ended with exit code 0.

        Args:
          stop_fd: a descriptor that becomes readable to stop the run.

        Raises:
          TaskFailure: a task failed or missed a timeout.
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
                    yield from self._injected_events()  # before its consequences
                    for key, _mask in found:
                        if key.data is None:
                            raise StoppedError(_("The run was stopped."))
                        yield from self._read(key.data)
                        if key.data.has_exited:
                            selector.unregister(key.fd)
                            yield self._reap(key.data)
                    self._clock.tick(paused=self._liveness.is_paused)
                    self._check_deadlines()
                except TaskFailure as failure:
                    yield from self._injected_events()
                    yield self._respawn(failure, selector)

    def _injected_events(self) -> Iterator[Event]:
        for event in self._fault_injector.drain_events():
            if event["fault"] == FaultType.THROTTLE:
                cleared = event["event"] == EventType.FAULT_CLEARED
                factor = 1.0 if cleared else event["options"]["factor"]
                self._liveness.set_slowdown(event["task"], factor)
            yield event

    @property
    def _is_active(self) -> bool:
        return any(not (p.has_exited or str(p.task) in self._servers) for p in self._processes)

    def _respawn(self, failure: TaskFailure, selector: selectors.BaseSelector) -> Event:
        """Replaces the lost process, or raises the failure."""
        lost, index = failure.process, self._processes.index(failure.process)
        if self._respawn_policy is None:
            raise failure
        new = self._respawn_policy.respawn(failure)
        if not lost.has_exited:
            selector.unregister(lost.fileno())
        lost.close()
        self._processes[index] = new
        self._stacks_at_failure = Stacks()
        self._liveness.reset(str(new.task))
        selector.register(new.fileno(), selectors.EVENT_READ, new)
        logger.warning("Respawned %s: %s", new.task, failure)
        return supervisor_event(EventType.RESPAWNED, new.task, reason=str(failure))

    def _read(self, process: TaskProcess) -> Iterator[Event]:
        for event in process.read_events():
            task = str(process.task)
            self._liveness.observe(task, event)
            if event["event"] == EventType.ERROR:
                self._errors[task] = event
            if event["event"] == EventType.STARTED:
                logger.info("%s started as process %d", task, event["pid"])
            if event["event"] == EventType.READY:
                logger.info("%s is ready at step %d", task, event["step"])
            yield event | {"task": task}
            if reason := self._equal_steps.note(process.config, event):
                is_waiting = event["event"] == EventType.WAITING
                raise _final(process, self._with_places(reason) if is_waiting else reason)

    def _reap(self, process: TaskProcess) -> Event:
        code = process.wait()
        if code == 0:
            self._equal_steps.end(process.config)
        else:
            if (printed := process.start_error) is not None:
                raise not_started(printed)
            error = self._errors.get(str(process.task))
            if error and error["retryable"]:
                self._check_peers(process)
            raise TaskFailure(process, self._describe_failure(process, code), error)
        logger.info("%s has ended", process.task)
        event = supervisor_event(EventType.EXIT, process.task, code=code)
        self._liveness.observe(str(process.task), event)
        return event

    def _describe_failure(self, process: TaskProcess, code: int) -> str:
        if error := self._errors.get(str(process.task)):
            return error_summary(str(process.task), self._liveness.step, error)
        values: dict[str, Any] = {"task": process.task.label, "step": self._liveness.step}
        if code == -signal.SIGKILL and machine.oom_kill_count() > self._oom_kills:
            message = _(
                "{task} ended with signal 9 (SIGKILL) at step {step}, and meanwhile the kernel "
                "killed a process because memory ran out"
            )
            return message.format(**values)
        if code < 0:
            message = _("{task} ended with signal {number} ({name}) at step {step}")
            return message.format(number=-code, name=signal_name(-code), **values)
        message = _("{task} ended with exit code {code} at step {step}")
        return message.format(code=code, **values)

    def _check_deadlines(self) -> None:
        now = self._clock.now
        if now - self._checked < POLL_INTERVAL * max(1, len(self._processes) / LARGE_GROUP):
            return
        self._checked = now
        for process in self._processes:
            if not process.has_exited:
                process.truncate_log()
        if cause := self._liveness.check():
            process = self._process_of(cause.task)
            if cause.is_alive:
                self._check_peers(process)
            places = self._collect_places()
            raise TaskFailure(process, join_clauses(filter(None, [cause.reason, places])))

    def _process_of(self, task: str) -> TaskProcess:
        return next(process for process in self._processes if str(process.task) == task)

    def _check_peers(self, process: TaskProcess) -> None:
        """Raises a failure without restart if a task waits for a task that has ended."""
        if reason := self._equal_steps.explain(process.config):
            raise _final(process, self._with_places(reason))

    def _with_places(self, sentences: str) -> str:
        """Appends where the tasks are, if any of them reports its stack."""
        places = self._collect_places()
        if not places:
            return sentences
        return join_sentences([sentences, _("At that time: {places}.").format(places=places)])


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


def not_started(printed: str) -> ClusterError:
    """The error for a fork server that could not start, with its output."""
    message = _(
        "The process from which workers are forked could not start. A file with the name of a "
        "Python module may have been imported instead: rename the file. It printed:"
    )
    return ClusterError(f"{message}\n{printed.rstrip()}")


def signal_name(number: int) -> str:
    """The name of a signal, as SIGKILL or, for a real-time signal, SIGRTMIN+1."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"
