"""Where the workers are: the reader's line of each worker, and what it waits for.

Everything here is decided from stacks alone. `helpers.cluster.stack_collection` collects them.
"""

from __future__ import annotations

import html
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from helpers import labels
from helpers.i18n import _, join_clauses, join_items, ngettext
from helpers.protocol.failures import Frame, is_user_frame
from helpers.protocol.stack_dump import ThreadStack

MAX_NAMES = 4  # of tasks that are at the same place
MAX_PLACES = 4  # in an error
MAX_CODE = 60  # characters of a line of a notebook's cell
CELL = re.compile(r"[\\/]ipykernel_\d+[\\/]\d+\.py$")
PIPELINE = re.compile(r"tensorflow/python/ops/script_ops\.py$")  # it calls a reader's generator


class WaitsFor(str, Enum):
    """What a task waits for."""

    NOTHING = "nothing"  # it computes, or waits in a call that is not known
    START = "start"  # of its process
    PEERS = "peers"  # to start
    COLLECTIVE = "collective"
    OPERATION = "operation"  # of TensorFlow, with no peer that trains in step
    COORDINATED = "coordinated"  # steps that a coordinator has scheduled
    DATA = "data"
    LOCK = "lock"
    THREAD = "thread"  # or a process
    SLEEP = "sleep"
    IO = "io"
    DEBUGGER = "debugger"
    CONTINUE = "continue"  # it is frozen
    REQUESTS = "requests"  # of other tasks, which it serves
    END = "end"  # of its peers
    UNKNOWN = "unknown"  # it did not answer

    __str__ = str.__str__


class Pattern(NamedTuple):
    """A function of a library that waits.

    Attributes:
      waits_for: what it waits for.
      file: a regular expression for the end of its file's path.
      function: a regular expression for its whole name.
    """

    waits_for: WaitsFor
    file: str
    function: str = ".*"


# The first pattern that fits any frame inside the call on the reader's line decides.
PATTERNS = (
    Pattern(WaitsFor.DEBUGGER, r"/(pdb|bdb)\.py"),
    Pattern(WaitsFor.REQUESTS, r"helpers/worker/server\.py", "serve"),
    Pattern(WaitsFor.END, r"helpers/worker/main\.py", "_exit_barrier"),
    Pattern(WaitsFor.PEERS, r"tensorflow/python/eager/context\.py", "ensure_initialized"),
    Pattern(WaitsFor.PEERS, r"tensorflow/python/training/session_manager\.py", "wait_for_.*"),
    Pattern(WaitsFor.COLLECTIVE, r"helpers/keras_3/agreement\.py", "_wait"),
    Pattern(WaitsFor.COLLECTIVE, r"tensorflow/python/ops/(gen_)?collective_ops\.py"),
    # which may run in a thread
    Pattern(WaitsFor.COLLECTIVE, r"tensorflow/python/distribute/cross_device_(ops|utils)\.py"),
    Pattern(WaitsFor.COORDINATED, r"tensorflow/python/distribute/coordinator/\w+\.py"),
    Pattern(WaitsFor.DATA, r"tensorflow/python/data/ops/iterator_ops\.py", "_?next.*|__next__"),
    Pattern(WaitsFor.DATA, r"tensorflow/python/ops/gen_dataset_ops\.py", ".*_next.*"),
    Pattern(WaitsFor.DATA, r"keras/.*/(data_utils|py_dataset_adapter)\.py"),
    Pattern(WaitsFor.IO, r"tensorflow/python/ops/gen_io_ops\.py"),
    Pattern(WaitsFor.IO, r"tensorflow/python/lib/io/file_io\.py"),
    Pattern(WaitsFor.COLLECTIVE, r"tensorflow/python/eager/execute\.py"),
    Pattern(WaitsFor.COLLECTIVE, r"tensorflow/python/client/session\.py", "_call_tf_sessionrun"),
    Pattern(WaitsFor.LOCK, r"/threading\.py", "acquire|__enter__"),
    Pattern(WaitsFor.LOCK, r"/multiprocessing/synchronize\.py"),
    Pattern(WaitsFor.THREAD, r"/(threading|queue|subprocess)\.py"),
    Pattern(WaitsFor.THREAD, r"/(multiprocessing|concurrent/futures)/\w+\.py"),
    Pattern(WaitsFor.IO, r"/(socket|ssl|selectors|shutil|pathlib|zipfile)\.py"),
)
# Functions in C have no frame, so the text of the reader's line decides.
LINES = (
    (WaitsFor.SLEEP, re.compile(r"\bsleep\(")),
    (WaitsFor.LOCK, re.compile(r"\.acquire\(|^with\b.*(lock|mutex|semaphore)", re.IGNORECASE)),
    (WaitsFor.THREAD, re.compile(r"\bos\.wait\w*\(")),
    (
        WaitsFor.IO,
        re.compile(
            r"\bopen\(|\bfsync\(|\bselect\(|\binput\("
            r"|\.(read\w*|write\w*|flush|recv\w*|send\w*|accept|connect)\("
        ),
    ),
)


@dataclass(frozen=True, repr=False)
class TaskStack:
    """Where a task is.

    Attributes:
      task: the task, as "worker 1".
      waits_for: what it waits for, as far as its stack shows.
      place: file, line and function of the reader's innermost line. While it waits for data, of the
        input pipeline if that is the reader's. None if no line is the reader's.
      step: the last step it reported, or None.
      threads: the stacks of its threads, first of the one that runs the job; empty without answer.
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
        sentence = describe([self])
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


def locate(
    threads: Sequence[ThreadStack], line_of: Callable[[str, int], str] = linecache.getline
) -> tuple[WaitsFor, Frame | None]:
    """What a task waits for and the reader's line, from its stacks.

    Args:
      threads: the first one runs the job.
      line_of: returns the text of a line of a file, or "".
    """
    waits_for, place = _locate_call(threads[0].frames, line_of)
    if waits_for in (WaitsFor.COLLECTIVE, WaitsFor.DATA):
        for thread in threads[1:]:
            if any(PIPELINE.search(file) for file, _line, _name in thread.frames):
                _inner, line = _locate_call(thread.frames, line_of)
                if line:
                    return WaitsFor.DATA, line
    return waits_for, place


def _locate_call(
    frames: Sequence[Frame], line_of: Callable[[str, int], str]
) -> tuple[WaitsFor, Frame | None]:
    users = [index for index, frame in enumerate(frames) if is_user_frame(frame[0])]
    place = frames[users[-1]] if users else None
    inner = frames[users[-1] + 1 :] if users else frames
    if place and not inner:
        text = line_of(place[0], place[1]).strip()
        return next((kind for kind, shown in LINES if shown.search(text)), WaitsFor.NOTHING), place
    for pattern in PATTERNS:
        for file, _line, function in inner:
            path = file.replace("\\", "/")
            if re.search(f"{pattern.file}$", path) and re.fullmatch(pattern.function, function):
                return pattern.waits_for, place
    return WaitsFor.NOTHING, place


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
    count = len(tasks)
    names = join_items(tasks[:MAX_NAMES])
    if (more := count - MAX_NAMES) > 0:
        message = ngettext("{tasks} and {count} more", "{tasks} and {count} more", more)
        names = message.format(tasks=names, count=more)
    if waits_for == WaitsFor.NOTHING and place:
        message = ngettext("{tasks} is at {place}", "{tasks} are at {place}", count)
        return message.format(tasks=names, place=format_place(place))
    clause = _messages(count)[waits_for].format(tasks=names)
    if place is None:
        return clause
    return _("{clause} ({place})").format(clause=clause, place=format_place(place))


def format_place(place: Frame, line_of: Callable[[str, int], str] = linecache.getline) -> str:
    """A line as "train.py:12, in step", or of a notebook's cell, whose file has no useful name."""
    file, line, function = place
    values = {"file": Path(file).name, "line": line, "function": function}
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
