"""Checks whether the tasks of a group train for the same number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers import labels
from helpers.i18n import _, join_sentences
from helpers.protocol.events import Event, EventType
from helpers.tf_config import EVALUATOR, Task, TFConfig


class EqualSteps:
    """Finds a task that trains longer than another one, from the events of all tasks.

    Synchronous training needs the same number of steps on every worker. A worker that ends earlier
    leaves the others in a collective that never completes, and a restart repeats that.
    """

    def __init__(self) -> None:
        self._plans: dict[Task, int] = {}
        self._trained: dict[Task, Event] = {}
        self._waiting: dict[Task, int] = {}  # the batch in progress
        self._steps: dict[Task, int] = {}
        self._returned: set[Task] = set()
        self._ended: set[Task] = set()

    def note(self, config: TFConfig, event: Event) -> str | None:
        """Processes an event, and returns a sentence if the tasks cannot end together."""
        task = config.task
        if task.type == EVALUATOR:
            return None
        match event["event"]:
            case EventType.RUN_INFO:
                return self._compare_plans(task, event["total_steps"])
            case EventType.STEP:
                self._steps[task] = event["step"]
            case EventType.TRAINED if not config.is_asynchronous:
                self._trained[task] = event
                return self._compare_ends()
            case EventType.RESULT if not config.is_asynchronous:
                self._returned.add(task)
            case EventType.WAITING if not config.is_asynchronous and event["batches"]:
                self._waiting[task] = event["batches"]
                return self._compare_ends()
            case EventType.WAITING if (
                self._returned and not event["batches"]
            ):  # a function, in a TensorFlow call
                return self._explain(config, self._returned)
        return None

    def end(self, config: TFConfig) -> None:
        """Records that a task has ended successfully."""
        if not config.is_asynchronous and config.task in config.tasks:
            self._ended.add(config.task)

    def explain(self, config: TFConfig) -> str | None:
        """Describes the ended task that a task without peers or progress waits for."""
        return self._explain(config, self._ended)

    def _explain(self, config: TFConfig, ended_tasks: set[Task]) -> str | None:
        others = ended_tasks - {config.task}
        if config.is_asynchronous or config.task not in config.tasks or not others:
            return None
        ended = min(others)
        advice = _(
            "Give all workers the same number of steps: shards of equal size, or a fixed "
            "steps_per_epoch, and no worker that stops by itself. A restart would not help, so the "
            "group was not restarted."
        )
        return join_sentences([self._ended_before(ended, config.task), advice])

    def _ended_before(self, ended: Task, task: Task) -> str:
        ended_at, task_at = self._steps.get(ended), self._steps.get(task)
        match ended_at is not None, task_at is not None:
            case True, True:
                message = _(
                    "{ended} has finished (step {ended_at}), while {task} is still training (step "
                    "{task_at}) and needs it for every step."
                )
            case True, False:
                message = _(
                    "{ended} has finished (step {ended_at}), while {task} is still training and "
                    "needs it for every step."
                )
            case False, True:
                message = _(
                    "{ended} has finished, while {task} is still training (step {task_at}) and "
                    "needs it for every step."
                )
            case _neither:
                message = _(
                    "{ended} has finished, while {task} is still training and needs it for every "
                    "step."
                )
        return message.format(
            ended=ended.label, task=task.label, ended_at=ended_at, task_at=task_at
        )

    def _compare_plans(self, task: Task, steps: int) -> str | None:
        self._plans.setdefault(task, steps)  # a later one is a more exact count
        for other, planned in self._plans.items():
            if planned != self._plans[task]:
                counts = sorted({other: planned, task: self._plans[task]}.items())
                (first, of_first), (second, of_second) = counts
                return _(
                    "An epoch has {of_first} on {first} and {of_second} on {second}: "
                    "input_fn returns different numbers of batches. Pass steps=, so that each "
                    "worker repeats its data as needed, or shard by input_context into equal "
                    "parts."
                ).format(
                    first=first.label,
                    of_first=labels.steps(of_first),
                    second=second.label,
                    of_second=labels.steps(of_second),
                )
        return None

    def _compare_ends(self) -> str | None:
        for task, batch in self._waiting.items():
            for other, end in self._trained.items():
                if batch > end["batches"] and task not in self._trained:
                    return self._unequal(other, end, task, batch)
        for task, end in self._trained.items():
            for other, another in self._trained.items():
                if end["batches"] < another["batches"]:
                    return self._unequal(task, end, other, another["batches"])
        return None

    def _unequal(self, ended: Task, end: Mapping[str, Any], task: Task, batch: int) -> str:
        return _(
            "{ended} stopped training after {batches} (step {step}), while {task} is training "
            "batch {batch}. Synchronous training needs every worker in every step. A hook that "
            "requests a stop must do so in all workers after the same batch: as a "
            "training_hook, not as a training_chief_hook. A restart would not help, so the "
            "group was not restarted."
        ).format(
            ended=ended.label,
            batches=labels.batches(end["batches"]),
            step=end["step"],
            task=task.label,
            batch=batch,
        )
