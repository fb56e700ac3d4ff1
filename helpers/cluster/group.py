"""The processes of one attempt, watched together; and those that take a lost one's place."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from helpers.cluster.deadlines import Deadlines, WatchClock
from helpers.cluster.processes import TaskProcess
from helpers.errors import StoppedError
from helpers.i18n import _, join_items
from helpers.messages.events import Deed, Event, Kind, watched
from helpers.messages.failures import raised
from helpers.system import machine
from helpers.tf_config import EVALUATOR, Task, TFConfig

POLL_SECONDS = 0.1
LARGE = 63  # processes; with more, deadlines are looked at less often, and events read together
GATHER_SECONDS = 0.05
PROGRESS = (
    Kind.READY,
    Kind.STEP,
    Kind.CHECKPOINT,
    Kind.EVALUATING,
    Kind.EVALUATION,
    Kind.RESULT,
)


class Fault(Exception):
    """One task failed; the group cannot go on. The message is a sentence without its stop."""

    def __init__(self, process: TaskProcess, message: str, error: Event | None = None) -> None:
        super().__init__(message)
        self.process = process
        self.error = error


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
    """The processes of one attempt. Closing it kills those that still run.

    Args:
      processes: those of all tasks, started.
      serves: whether a task only serves; the group has ended when all others have.
      deadlines: when a silence counts as a fault.
      replacements: gives lost workers a successor, where that is possible.
      told: gives what others did to the processes since it was called last.
    """

    def __init__(
        self,
        processes: Sequence[TaskProcess],
        serves: Callable[[TFConfig], bool],
        deadlines: Deadlines,
        replacements: Replacements,
        told: Callable[[], Iterable[Event]] = tuple,
    ) -> None:
        self._processes = list(processes)
        self._serves = serves
        self._deadlines = deadlines
        self._replacements = replacements
        self._told = told
        self._clock = WatchClock()
        self._checked = 0.0  # when deadlines were looked at last
        self._heard: dict[Task, float] = {}  # a start has a deadline of its own
        self._progress = 0.0
        self._step = 0
        self._memory_kills = machine.memory_kills()
        self._waiting = {p.task for p in processes if p.task.type != EVALUATOR}
        self._connecting: set[Task] = set()  # those that wait for the others, and cannot speak
        self._slowed: dict[str, float] = {}  # by which factor, on purpose
        self._errors: dict[str, Event] = {}

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

    def watch(self, woken: int) -> Iterator[Event]:
        """Yields events until every process has ended with 0.

        Args:
          woken: a descriptor that becomes readable when the watching must end.

        Raises:
          Fault: one task failed, or fell silent.
          StoppedError: `woken` became readable.
        """
        yield from self._harmed()
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            for process in self._processes:
                selector.register(process.fileno(), selectors.EVENT_READ, process)
                yield watched(Kind.LAUNCHED, process.task)
            while self._is_at_work:
                if len(self._processes) > LARGE:
                    time.sleep(GATHER_SECONDS)
                try:
                    found = selector.select(POLL_SECONDS)
                    yield from self._harmed()  # before what came of it
                    for key, _mask in found:
                        if key.data is None:
                            raise StoppedError(_("The run was stopped."))
                        yield from self._read(key.data)
                        if key.data.at_end:
                            selector.unregister(key.fd)
                            yield self._ended(key.data)
                    self._clock.tick()
                    self._check_deadlines()
                except Fault as fault:
                    yield from self._harmed()
                    yield self._replaced(fault, selector)

    def _harmed(self) -> Iterator[Event]:
        for event in self._told():
            if event["deed"] == Deed.SLOW:
                self._slowed[event["task"]] = event["how"]["factor"]
            yield event

    @property
    def _is_at_work(self) -> bool:
        return any(not (p.at_end or self._serves(p.config)) for p in self._processes)

    def _replaced(self, fault: Fault, selector: selectors.BaseSelector) -> Event:
        """Puts a successor in the place of the lost process, or raises the fault."""
        lost, index = fault.process, self._processes.index(fault.process)
        new = self._replacements.replace(fault)
        if not lost.at_end:
            selector.unregister(lost.fileno())
        lost.close()
        self._processes[index] = new
        self._slowed.pop(str(new.task), None)
        selector.register(new.fileno(), selectors.EVENT_READ, new)
        self._heard[new.task] = self._progress = self._clock.now
        return watched(Kind.REPLACED, new.task, reason=str(fault))

    def _read(self, process: TaskProcess) -> Iterator[Event]:
        for event in process.read_events():
            kind = event["event"]
            self._heard[process.task] = self._clock.now
            if kind in PROGRESS:
                self._progress = self._clock.now
                self._waiting.discard(process.task)
            if kind == Kind.CONNECTING:
                self._connecting.add(process.task)
            if kind == Kind.CONNECTED:
                self._connecting.discard(process.task)
            if kind in (Kind.READY, Kind.STEP):
                self._step = max(self._step, event["step"])
            if kind == Kind.ERROR:
                self._errors[str(process.task)] = event
            yield event | {"task": str(process.task)}

    def _ended(self, process: TaskProcess) -> Event:
        code = process.wait()
        self._waiting.discard(process.task)
        if code != 0:
            error = self._errors.get(str(process.task))
            raise Fault(process, self._failure_reason(process, code), error)
        return watched(Kind.EXIT, process.task, code=code)

    def _failure_reason(self, process: TaskProcess, code: int) -> str:
        if error := self._errors.get(str(process.task)):
            return raised(str(process.task), self._step, error)
        values: dict[str, Any] = {"task": process.task, "step": self._step}
        if code == -signal.SIGKILL and machine.memory_kills() > self._memory_kills:
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
        now, limits = self._clock.now, self._deadlines
        if now - self._checked < POLL_SECONDS * max(1, len(self._processes) / LARGE):
            return
        self._checked = now
        running = [process for process in self._processes if not process.at_end]
        for process in running:
            process.cut_log()
        free = [process for process in running if process.task not in self._connecting]
        for process in free:
            patience = limits.silence * self._slowed.get(str(process.task), 1.0)
            if now - self._heard.get(process.task, now) > patience:
                raise self._silence(process, patience)
        waiting = [process for process in running if process.task in self._waiting]
        if waiting and now > limits.start:
            raise self._late(waiting)
        if running and not waiting and now - self._progress > limits.progress:
            raise self._standstill((free or running)[0])

    def _silence(self, process: TaskProcess, seconds: float) -> Fault:
        message = _(
            "{task} gave no sign of life for {seconds:g} s, at step {step}: it is stopped, or "
            "starved by other programs"
        )
        return Fault(process, message.format(task=process.task, seconds=seconds, step=self._step))

    def _late(self, waiting: Sequence[TaskProcess]) -> Fault:
        silent = min(waiting, key=self._suspect_order)
        others = join_items(str(process.task) for process in waiting if process is not silent)
        message = (
            _("{task} was not ready within {seconds:g} s; {others} may only have waited for it")
            if others
            else _("{task} was not ready within {seconds:g} s")
        )
        seconds = self._deadlines.start
        return Fault(silent, message.format(task=silent.task, seconds=seconds, others=others))

    def _suspect_order(self, process: TaskProcess) -> tuple[bool, float]:
        """By which the first is the suspect: who waits for others, or was heard later, did more."""
        return process.task in self._connecting, self._heard.get(process.task, -1.0)

    def _standstill(self, process: TaskProcess) -> Fault:
        message = _(
            "{task} and its peers made no step for {seconds:g} s after step {step}, though all "
            "processes are alive"
        )
        seconds = self._deadlines.progress
        return Fault(process, message.format(task=process.task, seconds=seconds, step=self._step))


def _signal_name(number: int) -> str:
    """As SIGKILL or, for those of real time that Python has no names for, SIGRTMIN+1."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"
