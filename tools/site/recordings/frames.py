"""A recording as the panel shows it: frames in the language in use, each as its changes.

The panel's own functions draw every frame at build time, so that a page needs only to show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from helpers import labels
from helpers.course.panel import curves
from helpers.course.panel import fragments as texts
from helpers.course.panel.fault_timeline import fault_timeline, lines
from helpers.course.panel.run import Run, planned_tasks
from helpers.course.panel.status import Status
from helpers.i18n import labeled
from helpers.params import DEFAULT_PARAMS
from helpers.results.training_result import TrainingResult
from helpers.strategies import MULTI_WORKER
from helpers.tf_config import WORKER, Task, TFConfig
from tools.site.recordings import reasons
from tools.site.recordings.run_file import Recording

INTERVAL = 0.25  # seconds, as in the panel
COLLECTIVE = "RING"
WIDTH = 480  # of the cluster and of the timeline: readable on a phone
EDIT_SIZE = len("[999,99,99,],")
TOKENS = re.compile(r"(<[^>]+>)")

Parts = Mapping[str, str]
"""The HTML of each part of the panel, by its name."""

Change = str | list[list[Any]]
"""The new HTML of a part, or its changed tokens: the number of the token, how many characters of
its beginning and of its end remain, and the text between them."""


class Frame(NamedTuple):
    """What the panel shows from a time on, in seconds since the start of the run."""

    seconds: float
    parts: Parts


class _Process(NamedTuple):
    """What a run reads of a process."""

    task: Task
    config: TFConfig


class Replay:
    """A run of the panel that receives recorded events.

    Attributes:
      run: the run at the time `seconds`.
    """

    def __init__(self, recording: Recording) -> None:
        workers = recording.setting.workers
        result = TrainingResult.for_run(MULTI_WORKER, workers, COLLECTIVE)
        result.started = self.seconds = 0.0
        tasks = planned_tasks(workers, evaluator=False)
        self.run = Run(result, tasks, int(DEFAULT_PARAMS["batch_size"]))
        for task in tasks:
            task.clock = lambda: self.seconds
        self._events = list(recording.localized_events())
        self._clusters = recording.clusters
        self._error = recording.error
        self.end = self._events[-1]["time"]

    def advance(self, seconds: float) -> None:
        """Adds the events until then, and finishes the run after the last one."""
        while self._events and self._events[0]["time"] <= seconds:
            event = self._events.pop(0)
            self.seconds = event["time"]
            self.run.result.add(event)
            self.run.add(event, self._processes(event["attempt"]))
        self.seconds = seconds
        if not self._events:
            self.run.finish(Status.FAILED if self._error else Status.DONE)

    @property
    def error(self) -> str | None:
        """The error that has ended the run by then, or None."""
        return reasons.render(self._error) if self._error and not self._events else None

    @property
    def phase(self) -> Status:
        """The state of the group as a whole."""
        return Status.FAILED if self.error else self.run.phase

    def _processes(self, attempt: int) -> list[Any]:
        if attempt >= len(self._clusters):
            return []
        cluster = {job: tuple(found) for job, found in self._clusters[attempt].items()}
        tasks = [Task(WORKER, k) for k in range(len(cluster[WORKER]))]
        return [_Process(task, TFConfig(cluster, task)) for task in tasks]


def frames(recording: Recording) -> Iterator[Frame]:
    """The frames of a recording, without those that equal the previous one."""
    replay, seconds, shown = Replay(recording), 0.0, None
    while True:
        replay.advance(seconds)
        parts = draw(replay)
        if parts != shown:
            yield Frame(seconds, parts)
        if seconds >= replay.end:
            return
        shown, seconds = parts, seconds + INTERVAL


def draw(replay: Replay) -> Parts:
    """The parts of the panel that show a run."""
    run, result, tasks = replay.run, replay.run.result, replay.run.tasks
    log = result.fault_log
    names = [task.name for task in tasks]
    total = result.total_steps
    return {
        "phase": texts.chip(replay.phase),
        "summary": texts.summary(run),
        "tasks": "".join(texts.task_row(task, k, total) for k, task in enumerate(tasks)),
        "cluster": texts.moving_cluster(tasks, result.communication, result.variables, width=WIDTH),
        "loss": curves.loss_chart(result).svg(),
        "speed": curves.speed_chart(result).svg(),
        "timeline": fault_timeline(result, names, width=WIDTH).svg(),
        "log": lines(log) if log else "",
        "caption": escape(_last_line(result)) if log else "",
        "report": _report(replay),
    }


def _report(replay: Replay) -> str:
    """The result or the error of a run that has ended."""
    if replay.error:
        return f'<pre class="mwl-error">{escape(replay.error)}</pre>'
    return f"<p>{escape(repr(replay.run.result))}</p>" if replay.phase == Status.DONE else ""


def _last_line(result: TrainingResult) -> str:
    line = result.fault_log[-1]
    return labeled(labels.task(line.task), line.message)


def encode(shown: list[Frame], names: tuple[str, ...]) -> list[list[Any]]:
    """Each frame as its time and the changes of its parts since the previous one.

    Args:
      names: the parts to show.
    """
    encoded: list[list[Any]] = []
    before: Parts = {}
    for frame in shown:
        changes = {
            name: _change(before.get(name), frame.parts[name])
            for name in names
            if before.get(name) != frame.parts[name]
        }
        if changes:
            encoded.append([frame.seconds, changes])
        before = frame.parts
    return encoded


def _change(before: str | None, after: str) -> Change:
    old, new = TOKENS.split(before or ""), TOKENS.split(after)
    if before is None or len(old) != len(new):
        return after
    edits = [
        (place, _edit(*pair))
        for place, pair in enumerate(zip(old, new, strict=True))
        if pair[0] != pair[1]
    ]
    size = sum(len(middle) + EDIT_SIZE for _place, (_start, _end, middle) in edits)
    return after if size > len(after) else [[place, *edit] for place, edit in edits]


def _edit(old: str, new: str) -> tuple[int, int, str]:
    """How many characters remain at the beginning and at the end, and the text between them."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    return start, end, new[start : len(new) - end]


def _common(one: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))
