"""The result of a training run: numbers, history and charts."""

from __future__ import annotations

import html
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from helpers import labels
from helpers.errors import not_installed
from helpers.i18n import _, join_phrases, labeled, ngettext, number
from helpers.protocol.events import Event, EventType
from helpers.protocol.serialization import from_json
from helpers.protocol.spans import Span
from helpers.results.fault_log import FaultLog
from helpers.results.history import Evaluation, Resize, Staleness, StepReport, split_by_attempt
from helpers.strategies import MULTI_WORKER, PARAMETER_SERVER, communication_label, training_tasks
from helpers.tf_config import CHIEF

if TYPE_CHECKING:
    from helpers.results.svg_figure import SvgFigure

RESULT_MIME = "application/vnd.multiworker-lessons.result+json"
WARM_UP_SECONDS = 1.0  # excluded from the throughput: graph warm-up and the first decoding


class Stacks(Protocol):
    """The stacks of all tasks, by their names, such as `helpers.cluster.stacks.Stacks`."""

    def __getitem__(self, task: str, /) -> Any: ...

    def __len__(self) -> int: ...

    def _repr_html_(self) -> str: ...


@dataclass
class TrainingResult:
    """The result of a run, updated by each event.

    Attributes:
      workers: the number of processes that trained.
      collective: AUTO, RING or NCCL, as requested. Only MultiWorkerMirroredStrategy uses it.
      model_dir: the folder of the checkpoints.
      started: the time of the call of `train`, in seconds since the Unix epoch.
      seconds: the time from that call to the end of the last process.
      total_steps: the requested number of global steps, or None until the workers know it.
      global_batch: the number of examples per step of all workers together.
      history: the reports of each process that trained, by its name, chief first.
      evaluations: every evaluation, in order of time.
      checkpoints: the global steps at which the chief saved.
      restarts: the reason of each restart, in a sentence.
      resizes: each change of the number of workers.
      resumed_at: the global step at which each attempt began.
      warnings: other things that the user should know, in sentences.
      strategy: the name of the `tf.distribute` strategy.
      fault_log: the faults of the processes, their detection, and the recovery.
      variables: the bytes of variables on each task, by its name.
      staleness: the staleness that each training task reported, in asynchronous training.
      saved_by_chief: whether, in asynchronous training, the chief has saved and ended.
      stacks: the stacks that were collected before the processes of an attempt were killed, by the
        number of the attempt. They are collected if a timeout expires, and not after a crash.
      traces: the spans of the steps that each task traced, by its name and in the order of the
        tasks, for `helpers.results.timeline`.
    """

    workers: int
    collective: str
    model_dir: str
    started: float
    seconds: float = 0.0
    total_steps: int | None = None
    global_batch: int = 0
    history: dict[str, list[StepReport]] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    resizes: list[Resize] = field(default_factory=list)
    resumed_at: dict[int, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    strategy: str = MULTI_WORKER
    fault_log: FaultLog = field(default_factory=FaultLog)
    variables: dict[str, int] = field(default_factory=dict)
    staleness: dict[str, list[Staleness]] = field(default_factory=dict)
    saved_by_chief: bool = False
    stacks: dict[int, Stacks] = field(default_factory=dict)
    traces: dict[str, list[Span]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ended_early = False
        self._global_batches: dict[int, int] = {}  # by attempt
        if not self.history:  # in task order, independent of the order of reports
            self.history = {f"worker {worker}": [] for worker in range(self.workers)}

    @classmethod
    def for_run(cls, strategy: str, workers: int, collective: str) -> TrainingResult:
        """The empty result of a run that starts now, from arguments of `LocalCluster`."""
        tasks = training_tasks(strategy, workers)
        history: dict[str, list[StepReport]] = {task: [] for task in tasks}
        return cls(len(tasks), collective, "", time.time(), history=history, strategy=strategy)

    def add(self, event: Event) -> None:
        """Updates the result by one event of the supervisor."""
        self.seconds = event["time"] - self.started
        self.fault_log.add(event, self.seconds)
        match event["event"]:
            case EventType.STARTED | EventType.WARNING if notice := notice_of(event):
                self._add_warning(notice)
            case EventType.RUN_INFO:
                self._set_plan(event)
            case EventType.READY if event["task"] in self.history:  # servers have no steps
                attempt, step = event["attempt"], event["step"]  # other tasks may be ahead
                self.resumed_at[attempt] = min(step, self.resumed_at.get(attempt, step))
            case EventType.STEP:
                point = StepReport(
                    self.seconds,
                    event["step"],
                    event["loss"],
                    event["examples_per_second"],
                    event["attempt"],
                )
                self.history[event["task"]].append(point)
            case EventType.VARIABLE_PLACEMENT:
                self.variables |= event["bytes"]
            case EventType.STALENESS:
                lag = Staleness(event["step"], event["updates"], event["attempt"])
                self.staleness.setdefault(event["task"], []).append(lag)
            case EventType.TRAINED | EventType.RESULT if self._is_only_saved_by(event["task"]):
                self._end_of_chief(event)
            case EventType.CHECKPOINT:
                self.checkpoints.append(event["step"])
            case EventType.TRACE:
                found = self.traces | {event["task"]: event["spans"]}
                self.traces = {task: found[task] for task in self.history if task in found}
            case EventType.EVALUATION:
                evaluation = Evaluation(event["step"], from_json(event["metrics"]), self.seconds)
                self.evaluations.append(evaluation)
            case EventType.RESPAWNED:
                message = _("{reason}; it was restarted, and the others continued.")
                self._add_warning(message.format(reason=event["reason"]))
            case EventType.GROUP_RESTART | EventType.GROUP_RESIZED:
                self._add_group_event(event)

    def _add_group_event(self, event: Event) -> None:
        if event["event"] == EventType.GROUP_RESTART:
            self.restarts.append(event["reason"])
        else:
            self._add_resize(Resize.from_event(event))

    def _set_plan(self, event: Event) -> None:
        self.total_steps, self.global_batch = event["total_steps"], event["global_batch"]
        self._global_batches[event.get("attempt", 0)] = self.global_batch

    def add_stacks(self, stacks: Stacks) -> None:
        """Adds the stacks of the current attempt, which has failed."""
        if stacks:
            self.stacks[len(self.restarts)] = stacks

    def _is_only_saved_by(self, task: str) -> bool:
        """Whether a task is the chief of workers that train independently."""
        return self.strategy == PARAMETER_SERVER and task.partition(" ")[0] == CHIEF

    def _end_of_chief(self, event: Event) -> None:
        if event["event"] == EventType.TRAINED:
            self.saved_by_chief = True
            self._ended_early = event["step"] < (self.total_steps or 0)
            return
        if not self._ended_early:
            return
        message = _(
            "The chief stopped training before step {total}, because of a hook or the end of "
            "its data. Only the chief saves, so step {step} is saved and evaluated, and the "
            "workers' later training is lost. Use a training_hook, which stops all tasks."
        )
        self._add_warning(message.format(total=self.total_steps, step=self.steps))

    def _add_resize(self, resize: Resize) -> None:
        self.resizes.append(resize)
        self._add_warning(str(resize))

    def _add_warning(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    @property
    def communication(self) -> str:
        """How the workers communicate: the collective, or the strategy if it uses none."""
        return communication_label(self.strategy, self.collective)

    @property
    def steps(self) -> int:
        """The last global step reported or saved.

        With parameter servers, after the chief has ended, it is the last step saved.
        """
        if self.saved_by_chief and self.checkpoints:
            return max(*self.checkpoints, *(one.step for one in self.evaluations), 0)
        reported = [points[-1].step for points in self.history.values() if points]
        return max([*reported, *self.checkpoints, *(e.step for e in self.evaluations)], default=0)

    @property
    def evaluation(self) -> dict[str, Any]:
        """The metrics of the last evaluation, or an empty dict without one.

        Values are numbers, bytes, or lists of numbers for arrays such as a confusion matrix.
        """
        return self.evaluations[-1].metrics if self.evaluations else {}

    @property
    def accuracy(self) -> float | None:
        """The accuracy of the last evaluation, from 0 to 1."""
        return self.evaluations[-1].accuracy if self.evaluations else None

    @property
    def examples_per_second(self) -> float:
        """The training throughput of all workers together, in examples per second.

        It is measured in the longest attempt, from one second after its first step to its last
        step. An attempt shorter than two seconds is measured as a whole. The result is 0 if there
        are too few reports.
        """
        points = self._chief_history()
        start, end = max(
            split_by_attempt(points), key=lambda span: span[1] - span[0], default=(0, 0)
        )
        if start == end:
            return 0.0
        began, last = points[start].seconds, points[end - 1]
        if last.seconds - began > 2 * WARM_UP_SECONDS:
            start = bisect_left(
                points, WARM_UP_SECONDS, start, end, key=lambda point: point.seconds - began
            )
        seconds, steps = last.seconds - points[start].seconds, last.step - points[start].step
        global_batch = self._global_batches.get(points[start].attempt, self.global_batch)
        return steps * global_batch / seconds if seconds > 0 else 0.0

    @property
    def seconds_to_first_step(self) -> float | None:
        """The seconds from the call of `train` to the end of the first training step."""
        return min((points[0].seconds for points in self.history.values() if points), default=None)

    def plot(self) -> SvgFigure:
        """Loss and throughput over the steps, with restarts and evaluations marked.

        Raises:
          PackageError: matplotlib is not installed.
        """
        try:
            from helpers.results.chart import training_chart
        except ModuleNotFoundError:
            raise not_installed("matplotlib", "matplotlib>=3.8,<4") from None

        last_step = self.total_steps or self.steps
        return training_chart(self.history, self.evaluations, last_step, repr(self))

    def _chief_history(self) -> list[StepReport]:
        return next(iter(self.history.values()), [])

    def _repr_mimebundle_(self, **unused: Any) -> dict[str, Any]:
        """The summary, the numbers for programs that read the notebook, and any stacks."""
        numbers = {
            "workers": self.workers,
            "steps": self.steps,
            "seconds": self.seconds,
            "accuracy": self.accuracy,
            "examples_per_second": self.examples_per_second,
        }
        bundle = {"text/plain": repr(self), RESULT_MIME: numbers}
        if self.stacks:
            shown = html.escape(repr(self))
            bundle["text/html"] = f"<pre>{shown}</pre>{self.stacks_html()}"
        return bundle

    def stacks_html(self) -> str:
        """The stacks of each failed attempt, folded, or "" without any."""
        parts = []
        for attempt, stacks in list(self.stacks.items()):  # another thread may add some
            title = _("Stacks at the end of the run")
            if attempt < len(self.restarts):
                title = _("Stacks before restart {number}").format(number=attempt + 1)
            lines = f"<summary>{html.escape(title)}</summary>{stacks._repr_html_()}"
            parts.append(f'<details class="mwl-stacks">{lines}</details>')
        return "".join(parts)

    def __repr__(self) -> str:
        group = join_phrases([labels.workers(self.workers), self.communication])
        sentence = f"TrainingResult({labeled(group, join_phrases(self._findings()))})"
        return "\n".join([sentence, *self.warnings])

    def _findings(self) -> Iterator[str]:
        steps = ngettext("{count} step in {seconds} s", "{count} steps in {seconds} s", self.steps)
        yield steps.format(count=self.steps, seconds=number(self.seconds, ".1f"))
        yield labels.throughput_label(self.examples_per_second)
        if self.accuracy is not None:
            yield labels.accuracy(self.accuracy)
        elif not self.evaluations:
            yield _("not evaluated")
        if count := len(self.restarts):
            yield ngettext("{count} restart", "{count} restarts", count).format(count=count)
        else:
            yield _("no restart")


def notice_of(event: Event) -> str | None:
    """The message to the user about an event, or None for most events."""
    if event["event"] == EventType.STARTED and not event["isolated"]:
        return _("The workers' ports are open to the network (see SECURITY.md).")
    if event["event"] == EventType.GROUP_RESIZED:
        return str(Resize.from_event(event))
    return str(event["message"]) if event["event"] == EventType.WARNING else None
