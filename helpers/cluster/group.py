"""Supervises the processes of one attempt."""

from __future__ import annotations

import logging
import selectors
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from helpers.cluster.equal_steps import EqualSteps
from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group_size import GroupSize
from helpers.cluster.liveness import LivenessTracker
from helpers.cluster.processes import TaskProcess
from helpers.cluster.respawn import ResizeDue, RespawnPolicy, TaskFailure
from helpers.cluster.stack_collection import collect
from helpers.cluster.stacks import Stacks, describe
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _, join_clauses, join_sentences
from helpers.protocol.events import Event, EventType, FaultType, supervisor_event
from helpers.protocol.failures import EXIT_PREEMPTED, error_summary
from helpers.system import machine
from helpers.tf_config import TFConfig

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.1
LARGE_GROUP = 63  # with more processes, checks are rarer and events are batched
BATCH_READ_SECONDS = 0.05


class WorkerGroup:
    """The processes of one attempt. Closing it kills all processes that are still running.

    Args:
      processes: the started processes of all tasks.
      servers: the names of the tasks that only serve. The group ends when all other tasks have
        ended.
      timeouts: how long to wait before a task counts as failed.
      respawn_policy: replaces lost workers. Without one, each loss is a failure of the group.
      fault_injector: injects faults into these processes, and records the events about them.
      size: the number of workers, which may change at a checkpoint or, with parameter servers, at
        any time.
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
        size: GroupSize | None = None,
        clock: SuspendSafeClock | None = None,
    ) -> None:
        self._processes = list(processes)
        self._absent: list[TaskProcess] = []  # workers without which the others continue
        self._size = size
        self._total_steps: int | None = None
        self._preempted: TaskProcess | None = None  # the first one
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

    @property
    def step(self) -> int:
        """The last global step that was reported."""
        return self._liveness.step

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
          ResizeDue: the number of workers should change.
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
                    yield from self._follow_size(selector)
                except TaskFailure as failure:
                    yield from self._injected_events()
                    yield from self._respawn(failure, selector)

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

    def _respawn(self, failure: TaskFailure, selector: selectors.BaseSelector) -> Iterator[Event]:
        """Replaces or removes the lost process, or raises the failure."""
        lost, index = failure.process, self._processes.index(failure.process)
        if self._respawn_policy is None:
            raise failure
        new = self._respawn_policy.respawn(failure)
        if not lost.has_exited:
            selector.unregister(lost.fileno())
        lost.close()
        self._stacks_at_failure = Stacks()
        if self._preempted is lost:
            self._preempted = None
        if new is None:
            self._absent.append(self._processes.pop(index))
            self._liveness.remove(str(lost.task))
            yield self._resized(str(failure), lost, -1)
            return
        self._processes[index] = new
        self._liveness.reset(str(new.task))
        selector.register(new.fileno(), selectors.EVENT_READ, new)
        logger.warning("Respawned %s: %s", new.task, failure)
        yield supervisor_event(EventType.RESPAWNED, new.task, reason=str(failure))

    def _follow_size(self, selector: selectors.BaseSelector) -> Iterator[Event]:
        """With parameter servers, removes or adds a worker without a restart."""
        size = self._size
        workers = [process for process in self._processes if process.config.is_respawnable]
        if size is None or not size.change_is_due or not (workers or self._absent):
            return
        assert self._respawn_policy is not None
        if size.shrink_was_requested:
            raise TaskFailure(workers[-1], size.reason)
        if self._absent and size.target > size.current:
            new = self._respawn_policy.start(self._absent.pop(0))
            self._processes.append(new)
            self._liveness.add(str(new.task))
            selector.register(new.fileno(), selectors.EVENT_READ, new)
            yield self._resized(size.reason, new, 1)

    def _resized(self, reason: str, process: TaskProcess, change: int) -> Event:
        assert self._size is not None
        return self._size.resized(self._size.current + change, self.step, reason, process.task)

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
            if event["event"] == EventType.RUN_INFO:
                self._total_steps = event["total_steps"]
            if event["event"] == EventType.PREEMPTED and not self._preempted:
                self._preempted = process
            yield event | {"task": task}
            if event["event"] == EventType.CHECKPOINT:
                self._check_size(event["step"], process.config)
            if reason := self._equal_steps.note(process.config, event):
                is_waiting = event["event"] == EventType.WAITING
                raise _final(process, self._with_places(reason) if is_waiting else reason)

    def _check_size(self, step: int, config: TFConfig) -> None:
        """Ends the attempt at a checkpoint, unless no step is left or no restart is needed."""
        if config.is_asynchronous or self._size is None:
            return
        if self._size.is_due_at(step, self._total_steps):
            raise ResizeDue

    def _reap(self, process: TaskProcess) -> Event:
        code = process.wait()
        if code == 0:
            self._equal_steps.end(process.config)
        else:
            if (printed := process.start_error) is not None:
                raise not_started(printed)
            error = self._errors.get(str(process.task))
            if code in (-signal.SIGTERM, EXIT_PREEMPTED):
                self._preempted = self._preempted or process
            if self._preempted and (error is None or error["retryable"]):
                raise self._preemption(self._preempted)
            if error and error["retryable"]:
                self._check_peers(process)
            raise TaskFailure(process, self._describe_failure(process, code), error)
        logger.info("%s has ended", process.task)
        event = supervisor_event(EventType.EXIT, process.task, code=code)
        self._liveness.observe(str(process.task), event)
        return event

    def _preemption(self, process: TaskProcess) -> TaskFailure:
        message = _("{task} was preempted (SIGTERM) at step {step}")
        reason = message.format(task=process.task.label, step=self.step)
        return TaskFailure(process, reason, is_preempted=True)

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
