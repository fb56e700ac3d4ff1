"""A run in the panel: plain data, updated by events and read by the painter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers import labels
from helpers.course.panel.status import Status
from helpers.protocol.events import Event, EventType, FaultType
from helpers.results.training_result import TrainingResult
from helpers.strategies import MULTI_WORKER, PARAMETER_SERVER, training_tasks
from helpers.tf_config import EVALUATOR, PS, TFConfig

if TYPE_CHECKING:
    from helpers.cluster.processes import TaskProcess

# The state of a group is the first of these states that any of its tasks has.
PHASES = (
    Status.RESTARTING,
    Status.STARTING,
    Status.TRAINING,
    Status.EVALUATING,
    Status.READY,
)
LOST_DISPLAY_SECONDS = 1.2  # a group restarts in 0.1 s, too fast to see the lost task


@dataclass
class TaskStatus:
    """The state of one task.

    Attributes:
      name: the name, such as "worker 1".
      config: its `TF_CONFIG`, or None before its process has started.
      chief: whether it writes the checkpoints.
      status: its state.
      step: the last global step that it reported.
      examples_per_second: its share of the group's throughput.
      frozen: whether a fault has stopped its process.
      clock: the seconds of the clock that ends the display of a loss.
    """

    name: str
    config: TFConfig | None = None
    chief: bool = False
    status: Status = Status.WAITING
    step: int = 0
    examples_per_second: float | None = None
    frozen: bool = False
    show_lost_until: float = 0.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    @property
    def label(self) -> str:
        """Its name in the language in use."""
        return labels.task(self.name)

    @property
    def shown_status(self) -> Status:
        """`status`, but LOST for a moment after a loss, and FROZEN while the process is stopped."""
        if self.clock() < self.show_lost_until:
            return Status.LOST
        return Status.FROZEN if self.frozen else self.status

    @property
    def is_trainer(self) -> bool:
        """Whether it runs training steps, unlike servers and evaluators."""
        return not self.name.startswith((PS, EVALUATOR))

    @property
    def address(self) -> str | None:
        """The address of its server, or None if it is not known yet."""
        return self.config.address if self.config else None


@dataclass(frozen=True)
class RunRecord:
    """A finished run, which is one row of the panel's table.

    `workers` is the number of replicas that trained. `communication` and the units are as in
    `TrainingResult`.
    """

    workers: int
    communication: str
    batch_size: int
    evaluator: bool
    status: Status
    accuracy: float | None
    examples_per_second: float
    restarts: int


def planned_tasks(
    workers: int, *, evaluator: bool, strategy: str = MULTI_WORKER
) -> list[TaskStatus]:
    """The tasks of a group that has not been started, training tasks first."""
    names = training_tasks(strategy, workers)
    tasks = [TaskStatus(name, chief=name == names[0]) for name in names]
    others = [PS] * (strategy == PARAMETER_SERVER) + [EVALUATOR] * evaluator
    return tasks + [TaskStatus(f"{job} 0") for job in others]


@dataclass
class Run:
    """A training run, from the click on Run to its end. Hold `lock` to read several fields.

    Attributes:
      result: the run's numbers and history, updated by each event.
      tasks: one entry per process, training tasks first.
      batch_size: examples per step and worker, or 0 for a function, which alone knows it.
      stopping: whether a stop was requested.
    """

    result: TrainingResult
    tasks: list[TaskStatus]
    batch_size: int
    stopping: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def evaluator(self) -> bool:
        """Whether an evaluator runs with the workers."""
        return any(task.name.startswith(EVALUATOR) for task in self.tasks)

    @property
    def replicas(self) -> int:
        """The number of replicas, which exceeds the number of processes under MirroredStrategy."""
        if not self.batch_size:
            return self.result.workers
        return max(self.result.workers, self.result.global_batch // self.batch_size)

    @property
    def batch(self) -> int:
        """The examples per step and worker, or 0 until a function reports them."""
        return self.batch_size or self.result.global_batch // self.result.workers

    def add(self, event: Event, processes: Sequence[TaskProcess]) -> None:
        """Updates the tasks by one event, which `result` has already received.

        Args:
          processes: the processes of the current attempt.
        """
        with self.lock:
            if event["event"] == EventType.GROUP_RESTART:
                self._restart(event["task"])
                return
            for task in self.tasks:
                if task.name == event.get("task"):  # events of the group have no task
                    self._apply(task, event, processes)

    def mark_lost(self, name: str) -> None:
        """Marks a task as lost for a moment."""
        with self.lock:
            for task in self.tasks:
                if task.name == name:
                    task.show_lost_until = task.clock() + LOST_DISPLAY_SECONDS

    def finish(self, status: Status) -> RunRecord:
        """Marks the run as finished and returns its record."""
        with self.lock:
            for task in self.tasks:
                task.show_lost_until, task.frozen = 0.0, False
                task.examples_per_second = None
                if task.status != Status.DONE:
                    task.status = status
        result = self.result
        return RunRecord(
            self.replicas,
            result.communication,
            self.batch,
            self.evaluator,
            status,
            result.accuracy,
            result.examples_per_second,
            len(result.restarts),
        )

    @property
    def phase(self) -> Status:
        """The state of the group as a whole."""
        statuses = [task.status for task in self.tasks]
        for status in PHASES:
            if status in statuses:
                return status
        return Status.DONE if Status.DONE in statuses else Status.STARTING

    def _apply(self, task: TaskStatus, event: Event, processes: Sequence[TaskProcess]) -> None:
        match event["event"]:
            case EventType.FAULT_INJECTED | EventType.FAULT_CLEARED:
                if event["fault"] == FaultType.PAUSE:
                    task.frozen = event["event"] == EventType.FAULT_INJECTED
            case EventType.RESPAWNED:
                self.mark_lost(task.name)
                task.status, task.examples_per_second = Status.RESTARTING, None
                task.frozen = False
            case EventType.LAUNCHED | EventType.STARTED:
                task.status = Status.RESTARTING if event["attempt"] else Status.STARTING
                self._set_config(task, processes)
            case EventType.READY:
                task.status, task.step = Status.READY, event["step"]
            case EventType.STEP:
                task.status, task.step = Status.TRAINING, event["step"]
                if (speed := event["examples_per_second"]) is not None:
                    task.examples_per_second = speed / self.result.workers
            case EventType.EVALUATION_PROGRESS:
                task.status, task.examples_per_second = Status.EVALUATING, None
            case EventType.EVALUATION:
                task.status, task.step = Status.READY, event["step"]
            case EventType.EXIT:
                task.status, task.examples_per_second = Status.DONE, None

    def _set_config(self, task: TaskStatus, processes: Sequence[TaskProcess]) -> None:
        for process in processes:
            if str(process.task) == task.name:
                task.config = process.config
                task.chief = process.task == process.config.chief

    def _restart(self, lost: str) -> None:
        self.mark_lost(lost)
        for task in self.tasks:
            task.status, task.examples_per_second = Status.RESTARTING, None
            task.frozen = False


def speedups(records: Sequence[RunRecord]) -> list[float | None]:
    """Each run's throughput relative to one worker with the same batch size per worker.

    This is weak scaling, because the global batch grows with the workers. The latest such run of
    one worker is the reference. The value is None without a reference, or if the run did not
    finish.
    """
    alone = {
        (record.batch_size, record.evaluator): record.examples_per_second
        for record in records
        if record.workers == 1 and record.status == Status.DONE and record.examples_per_second
    }
    return [
        record.examples_per_second / base if base and record.status == Status.DONE else None
        for record in records
        for base in [alone.get((record.batch_size, record.evaluator))]
    ]
