"""Watches a group of processes, and starts it again when one of them fails.

The group is the unit, as in torchrun: TensorFlow's collectives do not survive the loss of one
member, nor take in a new one, so one fault ends all processes and a new group, on new ports,
goes on from the last checkpoint. The exception is a worker beside parameter servers: it holds
no state, and nobody waits for it, so it gets a successor at its address.
"""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from helpers.errors import (
    ClusterError,
    ConfigError,
    DataError,
    LessonError,
    StoppedError,
    UserCodeError,
)
from helpers.messages.events import Event
from helpers.i18n import _, ngettext
from helpers.cluster.processes import TaskProcess
from helpers.tf_config import EVALUATOR, Task
from helpers.messages.failures import readers_traceback

POLL_SECONDS = 0.1
PROGRESS = ("ready", "step", "checkpoint", "evaluating", "evaluation", "result")


@dataclass(frozen=True)
class Deadlines:
    """How long to wait, in seconds, before a silence counts as a fault.

    Attributes:
      start: from the start of the processes until all of them are ready to train.
      silence: without a sign of life from one process.
      progress: without a step, or other progress, of the group.
    """

    start: float
    silence: float
    progress: float


class Fault(Exception):
    """One task failed; the group cannot go on. The message is a sentence without its stop."""

    def __init__(self, process: TaskProcess, message: str, error: Event | None = None) -> None:
        super().__init__(message)
        self.process = process
        self.error = error


class Supervisor:
    """Runs a group until all its processes end well.

    Args:
      launch: starts the processes of an attempt, given its number from 0.
      replace: starts the successor of a lost worker beside parameter servers.
      deadlines: when a silence counts as a fault.
      max_restarts: how many faults are answered with a new group, or, in each attempt, with a
        new worker.
    """

    def __init__(
        self,
        launch: Callable[[int], list[TaskProcess]],
        replace: Callable[[TaskProcess], TaskProcess],
        deadlines: Deadlines,
        max_restarts: int,
    ) -> None:
        self._launch = launch
        self._replace = replace
        self._deadlines = deadlines
        self._max_restarts = max_restarts
        self._woken, self._wake = os.pipe()

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
            replacements = Replacements(self._replace, self._max_restarts)
            group = Group(self._launch(attempt), self._deadlines, replacements)
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
                yield _restart_event(fault, attempt)


class Replacements:
    """Gives lost workers beside parameter servers a successor, but not for ever.

    Args:
      start: starts the successor of a lost process.
      most: how many, in one attempt.
    """

    def __init__(self, start: Callable[[TaskProcess], TaskProcess], most: int) -> None:
        self._start = start
        self._left = most

    def replace(self, fault: Fault) -> TaskProcess:
        """The successor of the process that failed.

        Raises:
          Fault: the one given, where the whole group has to begin anew.
        """
        lost = fault.process
        if fault.error or not lost.config.is_replaceable or not self._left:
            raise fault
        self._left -= 1
        lost.signal(signal.SIGKILL)  # if it is frozen, and not dead
        lost.wait()
        return self._start(lost)


class Group:
    """The processes of one attempt. Closing it kills those that still run."""

    def __init__(
        self, processes: list[TaskProcess], deadlines: Deadlines, replacements: Replacements
    ) -> None:
        self._processes = processes
        self._deadlines = deadlines
        self._replacements = replacements
        self._clock = WatchClock()
        self._heard: dict[Task, float] = {}  # a start has a deadline of its own
        self._progress = 0.0
        self._step = 0
        self._waiting = {p.task for p in processes if p.task.type != EVALUATOR}
        self._connecting: set[Task] = set()  # those that wait for the others, and cannot speak
        self._errors: dict[str, Event] = {}

    def close(self) -> None:
        """Kills what is left; every process is sent its signal before any is waited for."""
        for process in self._processes:
            process.signal(signal.SIGKILL)
        for process in self._processes:
            process.close()

    def watch(self, woken: int) -> Iterator[Event]:
        """Yields events until every process has ended with 0.

        Args:
          woken: a descriptor that becomes readable when the watching must end.

        Raises:
          Fault: one task failed, or fell silent.
          StoppedError: `woken` became readable.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            for process in self._processes:
                selector.register(process.fileno(), selectors.EVENT_READ, process)
                yield _event("launched", process.task)
            while any(not (process.at_end or process.serves) for process in self._processes):
                try:
                    for key, _mask in selector.select(POLL_SECONDS):
                        if key.data is None:
                            raise StoppedError(_("The run was stopped."))
                        yield from self._read(key.data)
                        if key.data.at_end:
                            selector.unregister(key.fd)
                            yield self._ended(key.data)
                    self._clock.tick()
                    self._check_deadlines()
                except Fault as fault:
                    yield self._replaced(fault, selector)

    def _replaced(self, fault: Fault, selector: selectors.BaseSelector) -> Event:
        """Puts a successor in the place of the lost process, or raises the fault."""
        lost, index = fault.process, self._processes.index(fault.process)
        new = self._replacements.replace(fault)
        if not lost.at_end:
            selector.unregister(lost.fileno())
        lost.close()
        self._processes[index] = new
        selector.register(new.fileno(), selectors.EVENT_READ, new)
        self._heard[new.task] = self._clock.now
        return _event("replaced", new.task, reason=str(fault))

    def _read(self, process: TaskProcess) -> Iterator[Event]:
        for event in process.read_events():
            kind = event["event"]
            self._heard[process.task] = self._clock.now
            if kind in PROGRESS:
                self._progress = self._clock.now
                self._waiting.discard(process.task)
            if kind == "connecting":
                self._connecting.add(process.task)
            if kind == "connected":
                self._connecting.discard(process.task)
            if kind in ("ready", "step"):
                self._step = max(self._step, event["step"])
            if kind == "error":
                self._errors[str(process.task)] = event
            yield event | {"task": str(process.task)}

    def _ended(self, process: TaskProcess) -> Event:
        code = process.wait()
        self._waiting.discard(process.task)
        if code != 0:
            raise Fault(process, self._obituary(process, code), self._errors.get(str(process.task)))
        return _event("exit", process.task, code=code)

    def _obituary(self, process: TaskProcess, code: int) -> str:
        if error := self._errors.get(str(process.task)):
            return raised(str(process.task), self._step, error)
        values: dict[str, Any] = {"task": process.task, "step": self._step}
        if code < 0:
            message = _("{task} ended with signal {number} ({name}) at step {step}")
            return message.format(number=-code, name=signal.Signals(-code).name, **values)
        message = _("{task} ended with exit code {code} at step {step}")
        return message.format(code=code, **values)

    def _check_deadlines(self) -> None:
        now, limits = self._clock.now, self._deadlines
        running = [process for process in self._processes if not process.at_end]
        free = [process for process in running if process.task not in self._connecting]
        for process in free:
            if now - self._heard.get(process.task, now) > limits.silence:
                raise self._silence(process)
        waiting = [process for process in running if process.task in self._waiting]
        if waiting and now > limits.start:
            raise self._late(waiting)
        if running and not waiting and now - self._progress > limits.progress:
            raise self._standstill((free or running)[0])

    def _silence(self, process: TaskProcess) -> Fault:
        message = _(
            "{task} gave no sign of life for {seconds:g} s, at step {step}: it is stopped, or "
            "starved by other programs"
        )
        seconds = self._deadlines.silence
        return Fault(process, message.format(task=process.task, seconds=seconds, step=self._step))

    def _late(self, waiting: Sequence[TaskProcess]) -> Fault:
        silent = min(waiting, key=self._innocence)
        others = ", ".join(str(process.task) for process in waiting if process is not silent)
        message = (
            _("{task} was not ready within {seconds:g} s; {others} may only have waited for it")
            if others
            else _("{task} was not ready within {seconds:g} s")
        )
        seconds = self._deadlines.start
        return Fault(silent, message.format(task=silent.task, seconds=seconds, others=others))

    def _innocence(self, process: TaskProcess) -> tuple[bool, float]:
        """The later of two has done more: come so far as to wait for others, been heard."""
        return process.task in self._connecting, self._heard.get(process.task, -1.0)

    def _standstill(self, process: TaskProcess) -> Fault:
        message = _(
            "{task} and its peers made no step for {seconds:g} s after step {step}, though all "
            "processes are alive"
        )
        seconds = self._deadlines.progress
        return Fault(process, message.format(task=process.task, seconds=seconds, step=self._step))


class WatchClock:
    """Seconds of watching. A time in which nobody watched does not count.

    When the machine sleeps, or the notebook's process itself is stopped, the workers had no
    more chance to run than the watcher, and no deadline has passed.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def tick(self) -> None:
        """Lets the time since the last tick pass, at most one second."""
        time_now = time.monotonic()
        self.now += min(time_now - self._last, 1.0)
        self._last = time_now


def raised(task: str, step: int, error: Event) -> str:
    """Says, in a sentence without its stop, what an "error" event tells.

    Of its message only the first line: gRPC adds pages, which the log has.
    """
    message = _("{task} raised {error} at step {step}: {reason}")
    reason = error["message"].partition("\n")[0]
    return message.format(task=task, error=error["type"], step=step, reason=reason)


def final_error(task: str, error: Event) -> LessonError:
    """What to raise in the notebook for an "error" event that no restart would mend."""
    known = {"ConfigError": ConfigError, "DataError": DataError}.get(error["type"])
    if known:
        return known(error["message"])
    text = readers_traceback(error)
    message = _("{task} raised {error}; a restart would not help, so there was none.")
    message = message.format(task=task, error=error["type"])
    return UserCodeError(f"{message}\n{text}", task=task, traceback=text)


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


def _restart_event(fault: Fault, attempt: int) -> Event:
    return _event("restart", fault.process.task, attempt=attempt + 1, reason=str(fault))


def _event(kind: str, task: Task, **fields: Any) -> Event:
    return {"event": kind, "time": time.time(), "task": str(task), **fields}
