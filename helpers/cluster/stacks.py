"""Where the workers are: the reader's line of each worker, what it waits for, and all frames.

`helpers.cluster.stack_collection` collects the stacks.
"""

from __future__ import annotations

import html
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import labels
from helpers.cluster.stack_patterns import WaitsFor
from helpers.i18n import _, join_clauses, join_items, ngettext
from helpers.protocol.failures import Frame
from helpers.protocol.stack_dump import ThreadStack

MAX_NAMES = 4  # of tasks that are at the same place
MAX_PLACES = 4  # in an error
MAX_CODE = 60  # characters of a line of a notebook's cell
CELL = re.compile(r"[\\/]ipykernel_\d+[\\/]\d+\.py$")


@dataclass(frozen=True, repr=False)
class TaskStack:
    """Where a task is.

    Attributes:
      task: the task, as "worker 1".
      waits_for: what it waits for, as far as its stack shows.
      place: file, line and function of the reader's innermost line, or None without one. If
        TensorFlow called the reader's function in another thread, its line in that thread. The line
        is 0 if AutoGraph has rewritten the function.
      step: the last step it reported, or None.
      threads: the stacks of its threads, starting with the one that runs the job; empty
        without an answer.
    """

    task: str
    waits_for: WaitsFor
    place: Frame | None = None
    step: int | None = None
    threads: tuple[ThreadStack, ...] = ()

    @property
    def text(self) -> str:
        """All frames of all threads, the most recent call last."""
        parts = []
        for thread in self.threads:
            frames = [(*frame, None) for frame in thread.frames]
            parts.append("".join(traceback.StackSummary.from_list(frames).format()))
        return "\n".join(parts)

    def __repr__(self) -> str:
        sentence = _clause(self.waits_for, self.place, [labels.task(self.task)])
        if self.step is None:
            return sentence
        return _("{sentence}, after step {step}").format(sentence=sentence, step=self.step)


class Stacks(dict[str, TaskStack]):
    """The `TaskStack` of each task that runs, by its name."""

    @property
    def answered(self) -> bool:
        """Whether any task reported its stack."""
        return any(stack.threads for stack in self.values())

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values())) or _("No task is running.")

    def _repr_html_(self) -> str:
        """The lines, each of which opens the whole stack."""
        return "".join(
            f"<details><summary>{html.escape(repr(stack))}</summary>"
            f"<pre>{html.escape(stack.text)}</pre></details>"
            for stack in self.values()
        ) or html.escape(repr(self))


def describe(stacks: Iterable[TaskStack]) -> str:
    """Describes where the tasks are, in clauses without a full stop. Tasks that serve are omitted.

    Tasks at the same place share a clause.
    """
    groups: dict[tuple[WaitsFor, Frame | None], list[str]] = {}
    for stack in stacks:
        if stack.waits_for != WaitsFor.REQUESTS:
            groups.setdefault((stack.waits_for, stack.place), []).append(labels.task(stack.task))
    clauses = [_clause(*key, tasks) for key, tasks in groups.items()]
    return join_clauses(clauses[:MAX_PLACES] + ["…"] * (len(clauses) > MAX_PLACES))


def _clause(waits_for: WaitsFor, place: Frame | None, tasks: Sequence[str]) -> str:
    count = min(len(tasks), 2)  # in Russian, a list of 21 names would be a singular
    names = join_items(tasks[:MAX_NAMES])
    if (more := len(tasks) - MAX_NAMES) > 0:
        message = ngettext("{tasks} and {count} more", "{tasks} and {count} more", more)
        names = message.format(tasks=names, count=more)
    if waits_for == WaitsFor.NOTHING and place and place[1]:
        message = ngettext("{tasks} is at {place}", "{tasks} are at {place}", count)
        return message.format(tasks=names, place=format_place(place))
    clause = _messages(count)[waits_for].format(tasks=names)
    if place is None:
        return clause
    return _("{clause} ({place})").format(clause=clause, place=format_place(place))


def format_place(place: Frame, line_of: Callable[[str, int], str] = linecache.getline) -> str:
    """Formats a line as "train.py:12, in step". A line of a notebook's cell is quoted instead."""
    file, line, function = place
    values = {"file": Path(file).name, "line": line, "function": function}
    if not line:
        return _("in {function}").format(**values)
    if CELL.search(file) and (code := line_of(file, line).strip()):
        code = code if len(code) <= MAX_CODE else f"{code[:MAX_CODE]}…"
        return _("line {line} of a cell, in {function}: {code}").format(code=code, **values)
    return _("{file}:{line}, in {function}").format(**values)


def _messages(count: int) -> Mapping[WaitsFor, str]:
    """The clause about a number of tasks, by what they wait for."""
    return {
        WaitsFor.NOTHING: ngettext("{tasks} runs", "{tasks} run", count),
        WaitsFor.START: ngettext("{tasks} has not started", "{tasks} have not started", count),
        WaitsFor.CONTINUE: ngettext(
            "{tasks} is frozen (SIGSTOP)", "{tasks} are frozen (SIGSTOP)", count
        ),
        WaitsFor.REQUESTS: ngettext("{tasks} serves", "{tasks} serve", count),
        WaitsFor.END: ngettext("{tasks} has finished", "{tasks} have finished", count),
        WaitsFor.UNKNOWN: ngettext(
            "{tasks} did not report its stack", "{tasks} did not report their stacks", count
        ),
        **_messages_about_calls(count),
    }


def _messages_about_calls(count: int) -> Mapping[WaitsFor, str]:
    return {
        WaitsFor.PEERS: ngettext(
            "{tasks} waits for the start of a peer", "{tasks} wait for the start of a peer", count
        ),
        WaitsFor.COLLECTIVE: ngettext(
            "{tasks} waits in a collective", "{tasks} wait in a collective", count
        ),
        WaitsFor.OPERATION: ngettext(
            "{tasks} waits for a TensorFlow operation",
            "{tasks} wait for a TensorFlow operation",
            count,
        ),
        WaitsFor.COORDINATED: ngettext(
            "{tasks} waits for scheduled steps", "{tasks} wait for scheduled steps", count
        ),
        WaitsFor.DATA: ngettext("{tasks} waits for data", "{tasks} wait for data", count),
        WaitsFor.LOCK: ngettext("{tasks} waits for a lock", "{tasks} wait for a lock", count),
        WaitsFor.THREAD: ngettext(
            "{tasks} waits for another thread or process",
            "{tasks} wait for another thread or process",
            count,
        ),
        WaitsFor.SLEEP: ngettext("{tasks} sleeps", "{tasks} sleep", count),
        WaitsFor.IO: ngettext(
            "{tasks} waits for a file or the network",
            "{tasks} wait for a file or the network",
            count,
        ),
        WaitsFor.DEBUGGER: ngettext(
            "{tasks} waits in a debugger", "{tasks} wait in a debugger", count
        ),
    }
