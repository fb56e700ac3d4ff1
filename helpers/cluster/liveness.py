"""Decides, from the events of a group and a clock, which task has failed silently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from helpers import labels
from helpers.cluster.timeouts import Timeouts
from helpers.i18n import LocalNumber, _, join_items
from helpers.protocol.events import Event, EventType
from helpers.tf_config import EVALUATOR

PROGRESS_EVENTS = (
    EventType.READY,
    EventType.STEP,
    EventType.CHECKPOINT,
    EventType.EVALUATION_PROGRESS,
    EventType.EVALUATION,
    EventType.RESULT,
    EventType.EXIT,
)


MIN_BUSY_SHARE = 0.1  # of a core, below which a task does not compute
MAX_BUILDING = 10  # times the start timeout, for a task that computes continuously


class Clock(Protocol):
    """Measures the time since the group was started."""

    @property
    def now(self) -> float:
        """Seconds."""


class FailureCause(NamedTuple):
    """Why an attempt failed.

    Attributes:
      task: the task that failed, as "worker 1".
      reason: how it failed, as a sentence without its full stop.
      is_alive: whether its process runs and sends heartbeats without progress.
    """

    task: str
    reason: str
    is_alive: bool = False


class LivenessTracker:
    """Tracks heartbeats, readiness and progress of a group. It reads and sends nothing itself.

    Args:
      tasks: the names of the tasks, as "worker 1". An evaluator need not be ready for the others
        to start.
      timeouts: an infinite timeout turns its check off.
      clock: starts at 0 with the group.

    Attributes:
      step: the last global step that was reported.
      steps: the last step of each task that reported one.
    """

    def __init__(self, tasks: Sequence[str], timeouts: Timeouts, clock: Clock) -> None:
        self.step = 0
        self.steps: dict[str, int] = {}
        self._timeouts = timeouts
        self._clock = clock
        self._running = list(tasks)
        self._not_ready = {task for task in tasks if not task.startswith(EVALUATOR)}
        self._connecting: set[str] = set()  # all threads blocked, no heartbeat
        self._in_debugger: set[str] = set()
        self._slowdown: dict[str, float] = {}
        # The start timeout covers the time before a task's first event.
        self._last_event: dict[str, float] = {}
        self._last_progress = 0.0
        self._last_computing = 0.0
        self._cpu: dict[str, tuple[float, float]] = {}  # CPU seconds, and when they were measured

    @property
    def not_ready(self) -> list[str]:
        """The running tasks that are not ready to train yet."""
        return [task for task in self._running if task in self._not_ready]

    @property
    def is_paused(self) -> bool:
        """Whether the debugger of a task waits for the reader, so that no timeout may expire."""
        return bool(self._in_debugger)

    def observe(self, task: str, event: Event) -> None:
        """Processes an event of a task."""
        kind = event["event"]
        self._last_event[task] = self._clock.now
        if kind in PROGRESS_EVENTS:
            self._last_progress = self._clock.now
            self._not_ready.discard(task)
        if kind == EventType.HEARTBEAT and isinstance(event.get("cpu"), float):
            self._observe_cpu(task, event["cpu"])
        if kind in (EventType.READY, EventType.STEP):
            self.step = max(self.step, event["step"])
        if kind == EventType.STEP:
            self.steps[task] = event["step"]
        if kind == EventType.CONNECTING:
            self._connecting.add(task)
        if kind == EventType.CONNECTED:
            self._connecting.discard(task)
        if kind == EventType.DEBUGGER_STOPPED:
            self._in_debugger.add(task)
        if kind in (EventType.DEBUGGER_CONTINUED, EventType.EXIT):
            self._in_debugger.discard(task)
        if kind == EventType.EXIT and task in self._running:
            self._running.remove(task)

    def _observe_cpu(self, task: str, cpu: float) -> None:
        """Counts computing as progress before a start, because building a large graph is slow."""
        now = self._clock.now
        before, then = self._cpu.get(task, (cpu, now))
        if task not in self._connecting and cpu > before + MIN_BUSY_SHARE * (now - then):
            self._last_computing = now
        self._cpu[task] = cpu, now

    def set_slowdown(self, task: str, factor: float) -> None:
        """Multiplies the heartbeat timeout of a task that is slowed down intentionally."""
        self._slowdown[task] = factor

    def reset(self, task: str) -> None:
        """Restarts all timeouts of a task whose process was replaced."""
        self._forget_process(task)
        self._last_event[task] = self._last_progress = self._clock.now

    def remove(self, task: str) -> None:
        """Stops watching a task, without which the others continue."""
        self._running.remove(task)
        self._forget_process(task)

    def _forget_process(self, task: str) -> None:
        """Drops the state of a process that has ended."""
        self._slowdown.pop(task, None)
        self._connecting.discard(task)
        self._in_debugger.discard(task)
        self._not_ready.discard(task)  # the start timeout applies to the whole group

    def add(self, task: str) -> None:
        """Starts watching a task that has joined the others."""
        self._running.append(task)
        self.reset(task)

    def check(self) -> FailureCause | None:
        """Returns the failed task if a timeout has expired."""
        now, limits = self._clock.now, self._timeouts
        free = [task for task in self._running if task not in self._connecting]
        for task in free:
            timeout = limits.heartbeat * self._slowdown.get(task, 1.0)
            if now - self._last_event.get(task, now) > timeout:
                return self._heartbeat_lost(task, timeout)
        if not_ready := self.not_ready:
            idle = now - self._last_computing
            late = idle > limits.start or now > MAX_BUILDING * limits.start
            return self._start_timed_out(not_ready) if late else None
        if self._running and now - self._last_progress > limits.progress:
            return self._no_progress((free or self._running)[0])
        return None

    def _heartbeat_lost(self, task: str, seconds: float) -> FailureCause:
        message = _(
            "{task} has not responded for {seconds:g} s, at step {step}: it is stopped, "
            "or other programs are using its CPU time"
        )
        values = {"task": labels.task(task), "seconds": LocalNumber(seconds), "step": self.step}
        return FailureCause(task, message.format(**values))

    def _start_timed_out(self, not_ready: Sequence[str]) -> FailureCause:
        task = min(not_ready, key=self._suspect_key)
        others = join_items(labels.task(one) for one in not_ready if one != task)
        message = (
            _(
                "{task} was not ready within {seconds:g} s; {others} may only have been "
                "waiting for it"
            )
            if others
            else _("{task} was not ready within {seconds:g} s")
        )
        values = {
            "task": labels.task(task),
            "seconds": LocalNumber(self._timeouts.start),
            "others": others,
        }
        return FailureCause(task, message.format(**values))

    def _suspect_key(self, task: str) -> tuple[bool, float]:
        """Sort key that puts the task most likely to have caused the failure first."""
        return task in self._connecting, self._last_event.get(task, -1.0)

    def _no_progress(self, task: str) -> FailureCause:
        alone = len(self._running) == 1
        has_heartbeats = math.isfinite(self._timeouts.heartbeat)  # else it is unknown
        if has_heartbeats and alone:
            message = _(
                "{task} has made no progress for {seconds:g} s since step {step}, although its "
                "process is alive"
            )
        elif has_heartbeats:
            message = _(
                "{task} and its peers have made no progress for {seconds:g} s since step "
                "{step}, although all processes are alive"
            )
        elif alone:
            message = _("{task} has made no progress for {seconds:g} s since step {step}")
        else:
            message = _(
                "{task} and its peers have made no progress for {seconds:g} s since step {step}"
            )
        values = {
            "task": labels.task(task),
            "seconds": LocalNumber(self._timeouts.progress),
            "step": self.step,
        }
        return FailureCause(task, message.format(**values), is_alive=has_heartbeats)
