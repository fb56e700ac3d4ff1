"""What a task waits for and the reader's line, derived from the stacks of its threads.

The patterns are data. A new one is a line of `PATTERNS`, with the function of a library that waits.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from helpers.protocol.failures import Frame, is_user_frame
from helpers.protocol.stack_dump import ThreadStack

GENERATOR = re.compile(r"tensorflow/python/data/ops/from_generator_op\.py$")
PY_FUNCTION = re.compile(r"tensorflow/python/ops/script_ops\.py$")
REWRITTEN = re.compile(r"__autograph_generated_file\w*\.py$")  # a copy, with other lines
REWRITTEN_NAME = "tf__"
REPLICA = re.compile(r"tensorflow/python/distribute/mirrored_run\.py$")


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
# The modules of TensorFlow that call a reader's function in another thread, by what the main thread
# waits for.
CALLERS = {
    WaitsFor.COLLECTIVE: (PY_FUNCTION,),
    WaitsFor.DATA: (PY_FUNCTION,),
    WaitsFor.THREAD: (REPLICA,),
}


def locate(
    threads: Sequence[ThreadStack], line_of: Callable[[str, int], str] = linecache.getline
) -> tuple[WaitsFor, Frame | None]:
    """What a task waits for and the reader's line, from its stacks.

    Args:
      threads: the first one runs the job.
      line_of: returns the text of a line of a file, or "".
    """
    waits_for, place = _locate_call(threads[0].frames, line_of)
    callers = CALLERS.get(waits_for, ())
    for thread in threads[1:]:
        files = [file for file, _line, _function in thread.frames]
        if any(caller.search(file) for caller in callers for file in files):
            called, line = _locate_call(thread.frames, line_of)
            if line:
                is_input = waits_for == WaitsFor.DATA or any(map(GENERATOR.search, files))
                return WaitsFor.DATA if is_input else called, line
    return waits_for, place


def _locate_call(
    frames: Sequence[Frame], line_of: Callable[[str, int], str]
) -> tuple[WaitsFor, Frame | None]:
    users = [index for index, frame in enumerate(frames) if is_user_frame(frame[0])]
    place = frames[users[-1]] if users else _rewritten(frames)
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


def _rewritten(frames: Sequence[Frame]) -> Frame | None:
    """The reader's function in which AutoGraph's copy of it runs, or None."""
    for file, _line, function in reversed(frames):
        if REWRITTEN.search(file) and function.startswith(REWRITTEN_NAME):
            return file, 0, function.removeprefix(REWRITTEN_NAME)
    return None
