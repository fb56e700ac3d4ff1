"""A cluster without processes, for the panel: only faults happen during its run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group_size import GroupSize
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.cluster.timeouts import Timeouts
from helpers.errors import StoppedError
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.stack_dump import ThreadStack
from helpers.results.training_result import TrainingResult
from helpers.tf_config import Task, TFConfig, build_tf_configs

POLL_INTERVAL = 0.01


def sleeping(task: str, line: int) -> TaskStack:
    """The stack of a task that sleeps at a line."""
    frame = ("/home/me/train.py", line, "<lambda>")
    return TaskStack(task, WaitsFor.SLEEP, frame, 7, (ThreadStack(True, (frame,)),))


class FakeProcess:
    """A process that only remembers the signals sent to it."""

    is_running = True
    has_exited = False

    def __init__(self, config: TFConfig) -> None:
        self.config = config
        self.signals: list[int] = []

    @property
    def task(self) -> Task:
        """The task of the cluster."""
        return self.config.task

    def signal(self, number: int) -> None:
        """Remembers the signal."""
        self.signals.append(number)

    def log_tail(self, lines: int) -> str:
        """Returns no output."""
        return ""


class FakeCluster:
    """Has the methods of `LocalCluster` that the panel calls.

    Training runs until it is stopped, and restarts whenever a process is killed.

    Attributes:
      answer: blocks `stacks` while it is not set.
    """

    def __init__(self, workers: int, **options: Any) -> None:
        self.timeouts = Timeouts(60, 30, 30)
        self._configs = build_tf_configs([f"127.0.0.1:{k}" for k in range(2000, 2000 + workers)])
        self._injector = FaultInjector([str(config.task) for config in self._configs])
        self._stopped = threading.Event()
        self.answer = threading.Event()
        self.answer.set()
        self.processes: list[Any] = [FakeProcess(config) for config in self._configs]
        self._injector.set_processes(lambda: self.processes)

    def inject_fault(self, fault: str, task: str, **options: Any) -> None:
        """Like `LocalCluster.inject_fault`."""
        self._injector.inject(fault, task, options)

    def stacks(self) -> Stacks:
        """Each worker sleeps at its line of train.py."""
        self.answer.wait()
        tasks = [str(process.task) for process in self.processes]
        return Stacks({task: sleeping(task, line) for line, task in enumerate(tasks, 1)})

    def train(
        self,
        *_functions: Any,
        on_event: Callable[[Event], None],
        result: TrainingResult,
        **_options: Any,
    ) -> TrainingResult:
        """Reports faults, and a restart after each kill, until `stop` is called."""

        def report(event: Event) -> None:
            result.add(event | {"attempt": len(result.restarts)})
            on_event(event | {"attempt": len(result.restarts)})

        tasks = [str(process.task) for process in self.processes]
        self._injector.attach(tasks, GroupSize(len(tasks)))
        for task in tasks:
            report(supervisor_event(EventType.LAUNCHED, task))
        while not self._stopped.is_set():
            for event in self._injector.drain_events():
                report(event)
            for process in self.processes:
                if process.signals:
                    reason = f"{process.task} ended with signal {process.signals.pop()}"
                    result.add_stacks(self.stacks())
                    report(supervisor_event(EventType.GROUP_RESTART, process.task, reason=reason))
            time.sleep(POLL_INTERVAL)
        self._injector.detach()
        raise StoppedError("The run was stopped.")

    def stop(self) -> None:
        """Ends the run."""
        self._stopped.set()

    def close(self) -> None:
        """Ends the run."""
        self.stop()
